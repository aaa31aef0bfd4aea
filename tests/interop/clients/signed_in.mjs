// The TypeScript SDK 2.x as a client that signs in: `node signed_in.mjs TARGET`, where TARGET is JSON: the folder of the
// packages and the URL of the server. It prints each page that its user has to open, and reads the address that the
// user comes back to. What it got is JSON on its last line.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const target = JSON.parse(process.argv[2]);
const packages = createRequire(`${target.packages}/package.json`);
const { Client, StreamableHTTPClientTransport, UnauthorizedError } = await import(
  pathToFileURL(packages.resolve("@modelcontextprotocol/client"))
);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const stored = {};
const authProvider = {
  redirectUrl: target.callback,
  clientMetadata: {
    redirect_uris: [target.callback],
    client_name: "Host",
    token_endpoint_auth_method: "none",
    grant_types: ["authorization_code", "refresh_token"],
  },
  clientInformation: () => stored.client,
  saveClientInformation: (client) => void (stored.client = client),
  tokens: () => stored.tokens,
  saveTokens: (tokens) => void (stored.tokens = tokens),
  saveCodeVerifier: (verifier) => void (stored.verifier = verifier),
  codeVerifier: () => stored.verifier,
  saveDiscoveryState: (state) => void (stored.discovery = state),
  discoveryState: () => stored.discovery,
  invalidateCredentials: (which) => void (which !== "client" && delete stored.tokens),
  redirectToAuthorization: (url) => console.log(url.href),
};
let client, transport;

async function connect() {
  client = new Client({ name: "interop", version: "1.0.0" }, { versionNegotiation: { mode: "auto" } });
  transport = new StreamableHTTPClientTransport(new URL(target.url), { authProvider });
  await client.connect(transport);
}

async function runSignedIn(act) {
  try {
    return await act();
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
    const { value } = await lines.next();
    await transport.finishAuth(new URL(value).searchParams);
    return await act();
  }
}

const call = (name, args = {}) => runSignedIn(() => client.callTool({ name, arguments: args }));
await runSignedIn(connect);
const got = { tools: (await client.listTools()).tools.map((tool) => tool.name) };
got.read = (await call("listOrders")).content[0].text;
got.write = (await call("order", { dish: "soup" })).content[0].text;
console.log("signed in");
await lines.next();
got.again = (await call("listOrders")).content[0].text;
await client.close();
console.log(JSON.stringify(got));
process.exit(0);
