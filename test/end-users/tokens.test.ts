import test from 'ava';
import { SignJWT, createRemoteJWKSet, generateKeyPair, jwtVerify } from 'jose';
import { createSigningKeys } from '#domain/end-users/keys.ts';
import { createTokenSigner, createTokenVerifier } from '#domain/end-users/tokens.ts';
import { findProject } from '#domain/projects/store.ts';
import { openKeyRing } from '#lib/secrets.ts';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test);

const signedUp = async () => {
  const user = await platform().client.signUp();
  return { user, project: await platform().client.createProject(user) };
};

const mint = async (
  of: Awaited<ReturnType<typeof signedUp>>,
  body: Readonly<Record<string, unknown>> = { sub: crypto.randomUUID() },
) => platform().client.call('POST', `/projects/${of.project.id}/users/tokens`, { token: of.user.token, body });

const b64 = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');

const signingKeys = () => {
  const keyRing = openKeyRing(platform().config.PLINTH_SECRET_KEYS);
  return createSigningKeys(platform().db, ({ id, data_key }) => keyRing.sealerFor(id, data_key));
};
const verifier = () => createTokenVerifier(signingKeys(), () => Promise.resolve(true));

test('a token that was signed here says who and as what', async (t) => {
  const of = await signedUp();
  const sub = crypto.randomUUID();
  const { status, body } = await mint(of, { sub, claims: { tenant: 'a' }, expires_in: 60 });
  t.is(status, 201);
  t.like(body, { token_type: 'Bearer', expires_in: 60 });
  const user = await verifier().verify(of.project.id, body.access_token);
  t.is(user?.role, 'authenticated');
  t.like(JSON.parse(user?.claims ?? ''), { sub, tenant: 'a', role: 'authenticated' });
});

test('the published keys verify it with a library that knows nothing of us', async (t) => {
  const of = await signedUp();
  const { body } = await mint(of);
  const keys = createRemoteJWKSet(new URL(`${platform().base}/oauth/${of.project.id}/.well-known/jwks.json`));
  const { payload, protectedHeader } = await jwtVerify(body.access_token, keys, { typ: 'at+jwt' });
  t.is(payload.iss, `${platform().base}/oauth/${of.project.id}`);
  t.is(payload.aud, `${platform().base}/p/${of.project.ref}`);
  t.is(protectedHeader.alg, 'RS256');
});

test('a token of another project is none here', async (t) => {
  const [one, other] = [await signedUp(), await signedUp()];
  const { body } = await mint(one);
  await mint(other);
  t.is(await verifier().verify(other.project.id, body.access_token), null);
});

test('tokens that are forged, unsigned, changed, expired or of another kind are none', async (t) => {
  const of = await signedUp();
  const { body } = await mint(of);
  const token = String(body.access_token);
  const [head = '', payload = '', signature = ''] = token.split('.');
  const iss = `${platform().base}/oauth/${of.project.id}`;
  const { privateKey } = await generateKeyPair('RS256');
  const { kid } = JSON.parse(Buffer.from(head, 'base64url').toString()) as { kid: string };
  const own = () => new SignJWT({ role: 'authenticated' }).setIssuer(iss).setSubject('x').setExpirationTime('1h');
  const wrong = {
    'signed by somebody else': await own().setProtectedHeader({ alg: 'RS256', typ: 'at+jwt', kid }).sign(privateKey),
    'with a shared secret': await own()
      .setProtectedHeader({ alg: 'HS256', typ: 'at+jwt', kid })
      .sign(new TextEncoder().encode('a secret of more than thirty-two bytes')),
    unsigned: `${b64({ alg: 'none', typ: 'at+jwt' })}.${payload}.`,
    'with another payload': `${head}.${b64({ iss, sub: 'root', exp: 9_999_999_999 })}.${signature}`,
    'without a signature': `${head}.${payload}.AAAA`,
    'of another kind': `${b64({ alg: 'RS256', typ: 'JWT', kid })}.${payload}.${signature}`,
    'not a token': 'a.b.c',
  };
  for (const [what, given] of Object.entries(wrong)) t.is(await verifier().verify(of.project.id, given), null, what);
  t.truthy(await verifier().verify(of.project.id, token));
});

test('an expired token is none, also where it was valid a moment ago', async (t) => {
  const of = await signedUp();
  const project = await findProject(platform().db, of.project.id);
  if (project === undefined) return t.fail();
  const signer = createTokenSigner(signingKeys());
  const order = { issuer: `http://x/oauth/${project.id}`, audience: 'x', subject: 'x', claims: {} };
  const past = await signer.sign(project, { ...order, expiresIn: -60 });
  t.is(await verifier().verify(project.id, past), null);
});

test('registered claims, long ones and those of an hour and more are refused', async (t) => {
  const of = await signedUp();
  for (const body of [
    { sub: 'x', claims: { role: 'service_role' } },
    { sub: 'x', claims: { exp: 1 } },
    { sub: 'x', claims: { long: 'x'.repeat(5000) } },
    { sub: 'x', expires_in: 3601 },
    { sub: '' },
    {},
  ])
    t.is((await mint(of, body)).status, 400, JSON.stringify(body).slice(0, 60));
});

test('the private key is nowhere in the clear', async (t) => {
  const of = await signedUp();
  await mint(of);
  const [row] = await platform().db.query<{ text: string; public_jwk: object }>(
    `select encode(private_sealed, 'escape') as text, public_jwk from project_signing_keys where project_id = $1`,
    [of.project.id],
  );
  t.false(row?.text.includes('PRIVATE KEY'));
  t.false(Object.hasOwn(row?.public_jwk ?? {}, 'd'));
});
