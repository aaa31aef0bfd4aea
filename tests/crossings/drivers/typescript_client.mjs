// The TypeScript SDK 2.x for all rows: reads a call a line, and prints what came of it; see python_client.py.
import { closeSync, openSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const packages = createRequire(`${process.argv[2]}/package.json`);
const load = (name) => import(pathToFileURL(packages.resolve(`@modelcontextprotocol/${name}`)));
const { Client, StreamableHTTPClientTransport } = await load("client");
const { StdioClientTransport } = await load("client/stdio");

async function makeCall(asked) {
  const said = { consented: [], entered: [], items: [] };
  const capabilities = asked.forms ? { elicitation: { form: {} } } : {};
  const client = new Client(
    { name: "crossings", version: "1.0.0" },
    { capabilities, versionNegotiation: { mode: asked.mode.startsWith("2") ? { pin: asked.mode } : asked.mode } },
  );
  if (asked.forms) {
    client.setRequestHandler("elicitation/create", ({ params }) => {
      const isConsent = "allow" in params.requestedSchema.properties;
      (isConsent ? said.consented : said.entered).push(params.message);
      return { action: "accept", content: isConsent ? { allow: true } : { size: 4 } };
    });
  }
  const [command, ...args] = asked.command ?? [];
  const transport = command
    ? new StdioClientTransport({ command, args, env: asked.env, stderr: "ignore" })
    : new StreamableHTTPClientTransport(new URL(asked.url), { requestInit: { headers: asked.fields } });
  try {
    await client.connect(transport);
    said.version = client.getNegotiatedProtocolVersion();
    const onprogress = ({ message }) => {
      said.items.push(message ?? null);
      closeSync(openSync(`${asked.taken}.${said.items.length}`, "a"));
    };
    const options = { timeout: 60_000, ...(asked.taken ? { onprogress } : {}) };
    const params = { name: asked.tool, arguments: asked.arguments, _meta: asked.meta };
    said.result = await client.callTool(params, options);
  } catch (error) {
    said.error = `${error.name}: ${error.message}`;
  }
  await client.close().catch(() => undefined);
  return said;
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await makeCall(JSON.parse(line))));
}
