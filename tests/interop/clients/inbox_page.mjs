// The TypeScript SDKs as clients whose user can be told of a page: `node inbox_page.mjs TARGET`, where TARGET is JSON.
//
// TARGET has the folder of the packages, which of them (sdk: 1.x, client: 2.x), the mode of 2.x, the URL and the key. The
// result is JSON on stdout: the pages that were asked for, and what the call of `publish` came to.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const target = JSON.parse(process.argv[2]);
const packages = createRequire(`${target.packages}/package.json`);
const load = (name) => import(pathToFileURL(packages.resolve(`@modelcontextprotocol/${name}`)));

const asked = [];
const answer = (request) => {
  asked.push(request.params);
  return { action: "accept" };
};
const about = { name: "interop", version: "1.0.0" };
const capabilities = { elicitation: { url: {} } };
const requestInit = { headers: { authorization: `Bearer ${target.key}` } };
let client, Http;
if (target.sdk === "client") {
  const sdk = await load("client");
  client = new sdk.Client(about, { capabilities, versionNegotiation: { mode: target.mode } });
  client.setRequestHandler("elicitation/create", answer);
  Http = sdk.StreamableHTTPClientTransport;
} else {
  const { Client } = await load("sdk/client/index.js");
  const { ElicitRequestSchema } = await load("sdk/types.js");
  client = new Client(about, { capabilities });
  client.setRequestHandler(ElicitRequestSchema, answer);
  Http = (await load("sdk/client/streamableHttp.js")).StreamableHTTPClientTransport;
}
await client.connect(new Http(new URL(target.url), { requestInit }));
const result = await client.callTool({ name: "publish", arguments: { name: "x" } });
await client.close();
console.log(JSON.stringify({ asked, text: result.content[0].text, isError: result.isError === true }));
