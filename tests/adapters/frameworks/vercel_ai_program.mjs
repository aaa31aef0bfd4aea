// The story with the AI SDK of Vercel, over MCP: its agent loop with a model that plays a script, and its user's forms.
import { createMCPClient, ElicitationRequestSchema } from "@ai-sdk/mcp";
import { generateText, stepCountIs, streamText, simulateReadableStream } from "ai";
import { MockLanguageModelV4 } from "ai/test";

const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };

/** A model that plays turns: each a list of calls by names of tools, and then a text. */
function script(turns, heard) {
  const left = [...turns];
  const next = (options) => {
    heard.push(options);
    const turn = left.shift();
    const calls = (turn ?? []).map(([toolName, input], at) => ({
      type: "tool-call", toolCallId: `c${left.length}-${at}`, toolName, input: JSON.stringify(input),
    }));
    return turn ? calls : [{ type: "text", text: "done" }];
  };
  const reason = (content) => ({ unified: content[0].type === "text" ? "stop" : "tool-calls", raw: undefined });
  return new MockLanguageModelV4({
    doGenerate: async (options) => {
      const content = next(options);
      return { content, finishReason: reason(content), usage, warnings: [] };
    },
    doStream: async (options) => {
      const content = next(options);
      const chunks = content.flatMap((one) =>
        one.type === "text"
          ? [{ type: "text-start", id: "1" }, { type: "text-delta", id: "1", delta: one.text }, { type: "text-end", id: "1" }]
          : [one]);
      chunks.push({ type: "finish", finishReason: reason(content), usage });
      return { stream: simulateReadableStream({ chunks }) };
    },
  });
}

/** What the model reads of its calls. */
const readResults = (messages) =>
  messages.filter((one) => one.role === "tool").flatMap((one) => one.content)
    .filter((one) => one.type === "tool-result").map((one) => JSON.stringify(one.output));

async function play(url, turns, { decide, approve, stream } = {}) {
  const asked = [];
  const capabilities = decide ? { elicitation: {} } : {};
  const client = await createMCPClient({ transport: { type: "http", url: `${url}/mcp` }, capabilities });
  if (decide) {
    client.onElicitationRequest(ElicitationRequestSchema, async (request) => {
      asked.push(request.params.message);
      return decide() ? { action: "accept", content: { allow: true } } : { action: "decline" };
    });
  }
  try {
    const tools = await client.tools(), heard = [], model = script(turns, heard);
    const toolApproval = approve === undefined ? undefined : { erase: "user-approval" };
    const settings = { model, tools, toolApproval, stopWhen: stepCountIs(5) };
    if (stream) {
      const streamed = streamText({ ...settings, prompt: "Do it." });
      let text = "";
      for await (const piece of streamed.textStream) text += piece;
      return { read: readResults(heard.at(-1).prompt), asked, text };
    }
    let messages = [{ role: "user", content: "Do it." }];
    let result = await generateText({ ...settings, messages });
    messages = [...messages, ...result.response.messages];
    const requests = result.content.filter((one) => one.type === "tool-approval-request");
    if (requests.length) {
      asked.push(...requests.map((one) => one.toolCall.toolName));
      const content = requests.map((one) => ({ type: "tool-approval-response", approvalId: one.approvalId, approved: approve }));
      messages.push({ role: "tool", content });
      result = await generateText({ ...settings, messages });
    }
    const declared = heard[0].tools.map((one) => ({ name: one.name, description: one.description, parameters: one.inputSchema }));
    return { read: readResults(heard.at(-1).prompt), asked, declared };
  } finally {
    await client.close();
  }
}

let text = "";
for await (const piece of process.stdin) text += piece;
const sites = JSON.parse(text);
const erase = (name) => [[["erase", { name }]]];
const parts = {
  look: () => play(sites.site, [[["look", {}]]]),
  stream: () => play(sites.site, [[["look", {}]]], { stream: true }),
  fail: () => play(sites.site, [[["fail", {}]]]),
  wrong: () => play(sites.site, [[["add", { page_size: "many" }]]]),
  "form yes": () => play(sites.site, erase("form yes"), { decide: () => true }),
  "form no": () => play(sites.site, erase("form no"), { decide: () => false }),
  "form both": () => {
    const left = [true, false];
    return play(sites.site, [[["erase", { name: "form both" }], ["erase", { name: "form both" }]]], { decide: () => left.shift() });
  },
  refused: () => play(sites.refusing, erase("refused")),
  "approval yes": () => play(sites.site, erase("approval yes"), { approve: true }),
  "approval no": () => play(sites.site, erase("approval no"), { approve: false }),
};
const outcomes = {};
for (const [name, part] of Object.entries(parts)) {
  try {
    outcomes[name] = await part();
  } catch (error) {
    outcomes[name] = { failed: String(error?.stack ?? error) };
  }
}
console.log(JSON.stringify(outcomes));
process.exit(0);
