import { createServer } from "node:http";
import { convert } from "./convert.js";

const server = createServer(async (request, response) => {
  if (request.url === "/health") {
    response.end("healthy");
    return;
  }
  let body = "";
  for await (const chunk of request) body += chunk;
  try {
    response.end(convert(JSON.parse(body)));
  } catch (error) {
    response.writeHead(400).end(error.message);
  }
});

server.listen(Number(process.env.PORT ?? 8080), () => console.log("listening"));
