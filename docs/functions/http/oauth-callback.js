/**
 * The callback of another service's sign-in: trades the code for a token, keeps it, and leads back to the application.
 * Public; its environment has TOKEN_URL, CLIENT_ID, CLIENT_SECRET and APP_URL.
 */
/** @type {import('plinth/functions').Handler} */
export const handler = async (_, { request, env, db }) => {
  const [code, state] = [request?.query.get('code'), request?.query.get('state')];
  // The application wrote the state down when it sent the user there.
  const flow = state && (await db.queryOne('delete from oauth_flows where state = $1 returning user_id', [state]));
  if (!code || !flow) return new Response('This sign-in is not known or was completed.', { status: 400 });
  const form = new URLSearchParams({ grant_type: 'authorization_code', code });
  const answer = await fetch(env.TOKEN_URL ?? '', {
    method: 'POST',
    headers: { authorization: `Basic ${btoa(`${env.CLIENT_ID}:${env.CLIENT_SECRET}`)}` },
    body: form,
  });
  if (!answer.ok) return new Response('The service refused the code.', { status: 502 });
  const { access_token: token } = await answer.json();
  await db.insert('connections', { user_id: flow.user_id, token });
  return Response.redirect(`${env.APP_URL}/connected`, 303);
};
