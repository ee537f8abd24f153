// A proxy before a server whose stream of events is made up: so many changes a second, in the server's own form, which puts
// more than 50 changes in a quarter of a second together.
import { createServer, request } from "node:http";
import { link } from "./server.mjs";

export async function startFlood(url, perSecond) {
  const target = new URL(url);
  let sent = 0;
  let requests = 0;
  const timers = new Set();
  const proxy = createServer((from, to) => {
    if (from.url.startsWith("/api/v1/events")) return stream(to);
    if (from.url.startsWith("/api/")) requests += 1;
    const onward = request({ host: target.hostname, port: target.port, path: from.url, method: from.method, headers: from.headers }, (answer) => {
      to.writeHead(answer.statusCode, answer.headers);
      answer.pipe(to);
    });
    onward.on("error", () => to.destroy());
    from.pipe(onward);
  });
  const stream = (to) => {
    to.writeHead(200, { "content-type": "text/event-stream" });
    let beats = 0;
    to.write("id: 1-0\nevent: hello\ndata: {}\n\n");
    const timer = setInterval(() => {
      const count = perSecond / 4;
      sent += count;
      const newest = Array.from({ length: 200 }, (_, no) => ({ kind: "run", data: { run: `0a${sent}${no}`, job: `job-${no}`, status: "succeeded" } }));
      to.write(`id: 1-${sent}\nevent: burst\ndata: ${JSON.stringify({ count, runs: { succeeded: count }, skips: 0, newest })}\n\n`);
      // As the server does: one word a second about the load.
      if ((beats += 1) % 4 === 0) to.write(`event: tick\ndata: ${JSON.stringify({ active: sent % 7, waiting: 0, at_ms: Date.now() })}\n\n`);
    }, 250);
    timers.add(timer);
    to.on("close", () => clearInterval(timer));
  };
  await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const own = `http://127.0.0.1:${proxy.address().port}`;
  return {
    url: own,
    count: () => sent,
    requests: () => requests,
    link: (server) => link(server).replace(url, own),
    sent: (count) =>
      new Promise((resolve) => {
        const timer = setInterval(() => {
          if (sent < count) return;
          clearInterval(timer);
          resolve();
        }, 50);
      }),
    async stop() {
      for (const timer of timers) clearInterval(timer);
      proxy.closeAllConnections();
      await new Promise((resolve) => proxy.close(resolve));
    },
  };
}
