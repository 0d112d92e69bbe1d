/** An HTML page. Public. On the shared host its scripts run in an origin of their own (a sandbox). */
/** @type {import('plinth/functions').Handler} */
export const handler = async (_, { request, db }) => {
  const [{ n }] = await db.query('select count(*)::int as n from visits where path = $1', [request?.path ?? '/']);
  const html = `<!doctype html><title>Visits</title><h1>${escape(request?.path ?? '/')}</h1><p>${n} visits</p>`;
  return new Response(html, { headers: { 'content-type': 'text/html; charset=utf-8', 'cache-control': 'max-age=60' } });
};

const escape = (/** @type {string} */ text) =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
