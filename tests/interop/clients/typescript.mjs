// The TypeScript SDKs as clients: `node typescript.mjs TARGET`, where TARGET is JSON, and the result is JSON on stdout.
//
// TARGET has the folder of the packages, which of them (sdk: 1.x, client: 2.x), the URL or the command of a server, the
// mode of 2.x (auto, legacy), and whether a call is cancelled by leaving. The user declines the first question for consent,
// and allows the second. story.py does the same with the clients in Python.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const target = JSON.parse(process.argv[2]);
const packages = createRequire(`${target.packages}/package.json`);
const load = (name) => import(pathToFileURL(packages.resolve(`@modelcontextprotocol/${name}`)));

async function open(asked) {
  const answer = (request) => {
    asked.push(request.params.message);
    return asked.length === 1 ? { action: "decline" } : { action: "accept", content: { allow: true } };
  };
  const about = { name: "interop", version: "1.0.0" };
  const capabilities = { elicitation: { form: {} } };
  if (target.sdk === "client") {
    const { Client, StreamableHTTPClientTransport } = await load("client");
    const client = new Client(about, { capabilities, versionNegotiation: { mode: target.mode } });
    client.setRequestHandler("elicitation/create", answer);
    const { StdioClientTransport } = await load("client/stdio");
    return { client, Http: StreamableHTTPClientTransport, Stdio: StdioClientTransport };
  }
  const { Client } = await load("sdk/client/index.js");
  const { ElicitRequestSchema } = await load("sdk/types.js");
  const client = new Client(about, { capabilities });
  client.setRequestHandler(ElicitRequestSchema, answer);
  const { StreamableHTTPClientTransport } = await load("sdk/client/streamableHttp.js");
  const { StdioClientTransport } = await load("sdk/client/stdio.js");
  return { client, Http: StreamableHTTPClientTransport, Stdio: StdioClientTransport };
}

const asked = [];
const { client, Http, Stdio } = await open(asked);
const call = (name, args = {}, options = {}) => {
  const params = { name, arguments: args };
  return target.sdk === "client" ? client.callTool(params, options) : client.callTool(params, undefined, options);
};
const [command, ...words] = target.command ?? [];
const transport = target.url ? new Http(new URL(target.url)) : new Stdio({ command, args: words, stderr: "ignore" });
await client.connect(transport);

const said = { asked };
said.version = target.sdk === "client" ? client.getNegotiatedProtocolVersion() : "2025-11-25";
said.tools = (await client.listTools()).tools.map((tool) => tool.name);
said.sum = (await call("add", { a: 1, b: 2 })).structuredContent;
said.progress = [];
const steps = [];
const onprogress = ({ progress, total, message }) => {
  said.progress.push({ progress, total, message });
  steps.push(call("step"));
};
await call("count", { to: 3 }, { onprogress });
await Promise.all(steps);
said.quiet = (await call("count", { to: 0 })).content[0].text;
said.deleted = [];
for (const name of ["old.txt", "old.txt"]) said.deleted.push((await call("delete", { name })).content[0].text);
const [image] = (await call("chart")).content;
said.image = { type: image.type, mimeType: image.mimeType, data: image.data };

const leaving = new AbortController();
try {
  await call("wait", {}, { signal: leaving.signal, onprogress: () => leaving.abort("enough") });
  said.waited = "answered";
} catch {
  said.waited = "cancelled";
}
if (!target.leaves) said.heard = (await call("hear")).content[0].text;
await client.close();
console.log(JSON.stringify(said));
