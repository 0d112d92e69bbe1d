import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { SignJWT, exportJWK, generateKeyPair } from 'jose';

/** An OpenID provider of the test's own, which says what the test wants. */
export interface FakeIssuer {
  readonly url: string;
  /** Claims of the next id token, over the usual ones; undefined: left out. */
  claims: Record<string, unknown>;
  /** The header of the next id token, and whether another key signs it. */
  alg: 'RS256' | 'none' | 'stranger';
  readonly forms: URLSearchParams[];
  /** Answers instead of the token endpoint. */
  answer: ((form: URLSearchParams) => { status: number; body: string }) | null;
  readonly close: () => void;
}

const b64 = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');

/** @param nonce of the request that is answered */
export const startIssuer = async (clientId: string): Promise<FakeIssuer & { nonce: string }> => {
  const { publicKey, privateKey } = await generateKeyPair('RS256');
  const stranger = await generateKeyPair('RS256');
  const jwk = { ...(await exportJWK(publicKey)), kid: 'one', alg: 'RS256', use: 'sig' };
  const forms: URLSearchParams[] = [];
  const issuer = { url: '', nonce: '', claims: {}, alg: 'RS256', forms, answer: null } as unknown as FakeIssuer & {
    nonce: string;
  };
  const idToken = async (): Promise<string> => {
    const now = Math.floor(Date.now() / 1000);
    const usual = { iss: issuer.url, aud: clientId, sub: 'somebody', iat: now, exp: now + 60, nonce: issuer.nonce };
    const claims = Object.fromEntries(
      Object.entries({ ...usual, ...issuer.claims }).filter(([, value]) => value !== undefined),
    );
    if (issuer.alg === 'none') return `${b64({ alg: 'none' })}.${b64(claims)}.`;
    const key = issuer.alg === 'stranger' ? stranger.privateKey : privateKey;
    return new SignJWT(claims).setProtectedHeader({ alg: 'RS256', kid: 'one' }).sign(key);
  };
  const server = createServer((request, response) => {
    const send = (status: number, body: string): void => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(body);
    };
    const { pathname } = new URL(request.url ?? '/', 'http://x');
    if (pathname === '/.well-known/openid-configuration')
      return send(
        200,
        JSON.stringify({
          issuer: issuer.url,
          authorization_endpoint: `${issuer.url}/authorize`,
          token_endpoint: `${issuer.url}/token`,
          jwks_uri: `${issuer.url}/jwks`,
        }),
      );
    if (pathname === '/jwks') return send(200, JSON.stringify({ keys: [jwk] }));
    let text = '';
    request.on('data', (piece: Buffer) => (text += piece.toString()));
    request.on('end', () => {
      const form = new URLSearchParams(text);
      forms.push(form);
      const given = issuer.answer?.(form);
      if (given) return send(given.status, given.body);
      void idToken().then((token) =>
        send(200, JSON.stringify({ access_token: 'a', token_type: 'Bearer', expires_in: 60, id_token: token })),
      );
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return Object.assign(issuer, { url, close: () => void server.close() });
};
