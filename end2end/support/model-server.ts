// A model server with OpenAI's streaming protocol that does what a test tells it to and reports what it saw.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Gate } from "./gate.ts";

export class ModelServer {
  /** What was asked, as text. */
  readonly prompts: string[] = [];
  /** How many answers the client did not wait for. */
  aborted = 0;
  private next: Gate | null = null;
  private onAborted: (() => void)[] = [];

  private constructor(private readonly server: Server) {
    server.on("request", (request, response) => void this.answer(request, response));
  }

  static async start(): Promise<ModelServer> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new ModelServer(server);
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/v1`;
  }

  /** Stops the next answer after its first words. */
  hold(): Gate {
    this.next = new Gate();
    return this.next;
  }

  /** Resolves once a client has closed the stream of an answer that was not finished. */
  async abortion(): Promise<void> {
    if (this.aborted === 0) await new Promise<void>((resolve) => this.onAborted.push(resolve));
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let body = "";
    for await (const chunk of request.setEncoding("utf8")) body += chunk;
    const asked = JSON.parse(body) as { messages: { content: string }[] };
    const prompt = asked.messages.map((message) => message.content).join("\n");
    this.prompts.push(prompt);
    const gate = this.next;
    this.next = null;

    response.on("close", () => {
      if (response.writableFinished) return;
      this.aborted += 1;
      for (const tell of this.onAborted.splice(0)) tell();
    });
    const send = (choice: object) =>
      response.write(`data: ${JSON.stringify({ id: "answer-1", choices: [{ index: 0, ...choice }] })}\n\n`);
    response.writeHead(200, { "content-type": "text/event-stream" });
    const [first, ...others] = statements(prompt);
    send({ delta: { content: `## In short\n${first}\n` } });
    await gate?.pass();
    if (response.destroyed) return;
    send({ delta: { content: others.join("\n") } });
    send({ delta: {}, finish_reason: "stop" });
    response.end("data: [DONE]\n\n");
  }
}

/** One statement for each passage, made of the passage's own first sentence, so that nothing is invented. */
function statements(prompt: string): string[] {
  const passages = [...prompt.matchAll(/^\[(\d+:\d+)\] ([^\n]+(?:\n(?!\[|Document|DATA)[^\n]*)*)/gm)];
  return passages.map(([, mark, text]) => {
    const plain = text?.replace(/^#.*$/gm, "").trim() ?? "";
    return `- ${/^.*?[.!?](?=\s|$)/s.exec(plain)?.[0].replace(/\s+/g, " ") ?? plain} [${mark}]`;
  });
}
