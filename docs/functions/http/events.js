/** Server-sent events: the client has each one while the function goes on, and ends it by leaving. */
/** @type {import('plinth/functions').Handler} */
export const handler = (_, { request }) => {
  const count = Number(request?.query.get('count') ?? 3);
  let n = 0;
  const body = new ReadableStream({
    async pull(controller) {
      if (n === count) return controller.close();
      if (n > 0) await new Promise((resolve) => setTimeout(resolve, 50));
      n += 1;
      controller.enqueue(new TextEncoder().encode(`event: tick\ndata: ${JSON.stringify({ n })}\n\n`));
    },
  });
  return new Response(body, { headers: { 'content-type': 'text/event-stream' } });
};
