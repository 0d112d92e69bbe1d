import type { Example } from './example.ts';

const sql = `create table received (
  id bigint generated always as identity primary key,
  event text not null,
  body jsonb not null,
  received_at timestamptz not null default now()
);
-- No policy: only the function and the secret key of the project read and write it.
alter table received enable row level security;
insert into received (event, body) values ('example.made', '{"event": "example.made"}');
`;

const receiver = `// Takes a webhook that is signed as X-Signature: HMAC-SHA256 of the body, in hex.
const isSigned = async (bytes, signature, secret) => {
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  const key = await crypto.subtle.importKey('raw', new TextEncoder().encode(secret), algorithm, false, ['verify']);
  const given = Uint8Array.from(signature.match(/[0-9a-f]{2}/g) ?? [], (pair) => parseInt(pair, 16));
  return crypto.subtle.verify('HMAC', key, given, bytes);
};

export const handler = async (payload, { request, env, db }) => {
  const signature = request?.headers.get('x-signature') ?? '';
  if (!(await isSigned(request?.rawBody ?? new Uint8Array(), signature, env.WEBHOOK_SECRET)))
    return Response.json({ error: 'The signature is wrong.' }, { status: 401 });
  await db.insert('received', { event: String(payload?.event ?? 'unknown'), body: JSON.stringify(payload) });
  return { received: true };
};
`;

const javascript = `import { createHmac } from 'node:crypto';

const url = '{{rest_url}}';
const body = JSON.stringify({ event: 'order.paid', amount: 12 });
const signature = createHmac('sha256', '{{webhook_secret}}').update(body).digest('hex');

// As the service that sends webhooks would: without a key, with a signature.
const answer = await fetch(url + '/functions/v1/receive-webhook', {
  method: 'POST',
  headers: { 'content-type': 'application/json', 'x-signature': signature },
  body,
});
if (!answer.ok) throw new Error(await answer.text());

// The received events, read with the secret key.
const headers = { apikey: '{{secret_key}}' };
const rows = await fetch(url + '/rest/v1/received?select=event,body&order=id.desc&limit=10', { headers });
console.log(await rows.json());
`;

const python = `import hashlib, hmac, json, urllib.request

url = "{{rest_url}}"
body = json.dumps({"event": "order.paid", "amount": 12}).encode()
signature = hmac.new(b"{{webhook_secret}}", body, hashlib.sha256).hexdigest()

# As the service that sends webhooks would: without a key, with a signature.
headers = {"content-type": "application/json", "x-signature": signature}
urllib.request.urlopen(urllib.request.Request(url + "/functions/v1/receive-webhook", body, headers))

# What has come, read by the secret key.
rows = url + "/rest/v1/received?select=event,body&order=id.desc&limit=10"
with urllib.request.urlopen(urllib.request.Request(rows, headers={"apikey": "{{secret_key}}"})) as answer:
    print(json.load(answer))
`;

const curl = `URL='{{rest_url}}'
BODY='{"event":"order.paid","amount":12}'
SIGNATURE=$(printf %s "$BODY" | openssl dgst -sha256 -hmac '{{webhook_secret}}' | sed 's/.* //')

# As the service that sends webhooks would: without a key, with a signature.
curl -sf "$URL/functions/v1/receive-webhook" -H 'content-type: application/json' -H "x-signature: $SIGNATURE" -d "$BODY"

# What has come, read by the secret key.
curl -sf "$URL/rest/v1/received?select=event,body&order=id.desc&limit=10" -H 'apikey: {{secret_key}}'
`;

export const webhook: Example = {
  name: 'webhook',
  title: 'Webhook receiver',
  summary: 'An address that other services call: it checks their signature and keeps what they send.',
  makes: [
    'Table received, which only the project itself reads',
    'Function receive-webhook, which takes calls without a key and checks their signature',
    'A secret for the signature, among the variables of the function',
  ],
  sql,
  functions: [
    { name: 'receive-webhook', code: receiver, access: 'public', secrets: { WEBHOOK_SECRET: 'webhook_secret' } },
  ],
  code: { javascript, python, curl },
};
