// What stands between a client and a server over HTTP: it hears what the client sends, and adds headers where the client has
// no option for them.
import { createServer, request, type OutgoingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";

export class Wire {
  private constructor(
    private readonly server: Server,
    /** The bodies of the client's requests. */
    readonly heard: string[],
  ) {}

  static async to(target: string, added: OutgoingHttpHeaders = {}): Promise<Wire> {
    const { hostname, port } = new URL(target);
    const heard: string[] = [];
    const server = createServer((near, answer) => {
      // Host and Origin stay as they are, since whether the server refuses them is tested too.
      const headers = { ...near.headers, ...added };
      const far = request({ hostname, port, method: near.method, path: near.url, headers, setHost: false }, (response) => {
        answer.writeHead(response.statusCode ?? 502, response.headers);
        answer.flushHeaders();
        response.pipe(answer);
        response.on("error", () => answer.destroy());
      });
      far.on("error", () => answer.destroy());
      // A client that goes away takes its request back (Streamable HTTP), so it must be seen to go.
      answer.on("close", () => far.destroy());
      let body = "";
      near.on("data", (chunk) => (body += chunk));
      near.on("end", () => heard.push(body));
      near.pipe(far);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new Wire(server, heard);
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}
