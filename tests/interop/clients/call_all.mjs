// Call every tool of a server with one of the TypeScript SDKs, and print what came of each call; see call_all.py.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const target = JSON.parse(process.argv[2]);
const packages = createRequire(`${target.packages}/package.json`);
const load = (name) => import(pathToFileURL(packages.resolve(`@modelcontextprotocol/${name}`)));
const about = { name: "interop", version: "1.0.0" };
let client;
let Http;
if (target.sdk === "client") {
  const { Client, StreamableHTTPClientTransport } = await load("client");
  client = new Client(about, { versionNegotiation: { mode: target.mode } });
  Http = StreamableHTTPClientTransport;
} else {
  client = new (await load("sdk/client/index.js")).Client(about);
  Http = (await load("sdk/client/streamableHttp.js")).StreamableHTTPClientTransport;
}
await client.connect(new Http(new URL(target.url)));
const names = [];
let cursor;
do {
  const listed = await client.listTools(cursor ? { cursor } : undefined);
  names.push(...listed.tools.map((tool) => tool.name));
  cursor = listed.nextCursor;
} while (cursor);
const said = {};
for (const name of names) {
  try {
    said[name] = await client.callTool({ name, arguments: {} });
  } catch (error) {
    said[name] = { lost: String(error).slice(0, 300) };
  }
}
await client.close();
await new Promise((done) => process.stdout.write(JSON.stringify(said), done));
process.exit(0);
