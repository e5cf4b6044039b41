// Run by Node: Honcho's own MCP server from a checkout, as it is, behind plain HTTP instead of its Cloudflare Worker's shell.
import http from "node:http";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";

const source = "./src/"; // this file is run from beside a copy of the checkout's mcp folder
const { createServer } = await import(source + "server.ts");
const { parseConfig, createClientFactory, createUnscopedClient } = await import(source + "config.ts");

const host = http.createServer(async (request, response) => {
  const headers = new Headers();
  for (const [name, value] of Object.entries(request.headers)) if (typeof value === "string") headers.set(name, value);
  let config;
  try {
    config = parseConfig(new Request("http://127.0.0.1/", { headers }), { HONCHO_API_URL: process.env.HONCHO_API_URL });
  } catch (error) {
    const metadata = `http://${request.headers.host}/.well-known/oauth-protected-resource`;
    response.writeHead(401, { "content-type": "application/json", "www-authenticate": `Bearer resource_metadata="${metadata}"` });
    return response.end(JSON.stringify({ error: String((error as Error).message) }));
  }
  const server = createServer({ config, clientFor: createClientFactory(config), unscoped: createUnscopedClient(config) });
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
  response.on("close", () => void transport.close());
  await server.connect(transport);
  await transport.handleRequest(request, response);
});
host.listen(0, "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${(host.address() as { port: number }).port}`));
process.on("SIGTERM", () => process.exit(0));
