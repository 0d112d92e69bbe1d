import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';
import { receiverFor } from '#test/support/receiver.ts';
import { until } from '#test/support/until.ts';
import { webhookScene } from './api-scene.ts';
import { addProject, addWebhook, deliveriesOf, deliveriesWhen, emit, hasStatus, throttleOf } from './pipeline-scene.ts';

const platform = usePlatform(test);

test('a secret that a receiver repeats is not in the record, the one before it neither', async (t) => {
  const receiver = await receiverFor(t);
  const [secret, previousSecret] = ['my-own-secret-123', 'my-old-secret-123'];
  receiver.answer((response, { headers }) => response.end(JSON.stringify({ headers, was: previousSecret })));
  const project = await addProject(platform());
  const request = { url: receiver.url, secret, previousSecret, sendSecret: true };
  const webhook = await addWebhook(platform(), project, request);
  await emit(platform(), project.id, 'auth.login');
  const [row] = await deliveriesWhen(platform(), webhook.id, { fits: hasStatus('success') });
  t.is((await receiver.when(1))[0]?.headers['x-webhook-secret'], secret);
  t.regex(row?.response_body ?? '', /"x-webhook-secret":"••••".*"was":"••••"/);
  t.false(JSON.stringify(row).includes(secret) || JSON.stringify(row).includes(previousSecret));
});

test('a chat that repeats its address does not give it away', async (t) => {
  const receiver = await receiverFor(t);
  receiver.answer((response, { path }) => response.end(`no such path: ${path}`));
  const project = await addProject(platform());
  const chat = await addWebhook(platform(), project, { url: `${receiver.url}/services/T1/secret`, kind: 'slack' });
  await emit(platform(), project.id, 'auth.login');
  const [row] = await deliveriesWhen(platform(), chat.id, { fits: hasStatus('success') });
  t.is(row?.response_body, 'no such path: ••••');
});

test('tries that are cancelled by hand are no failures of the receiver; they are made once more', async (t) => {
  const receiver = await receiverFor(t);
  receiver.answer(() => undefined);
  const { made, owner, project } = await webhookScene(platform());
  const id = await made({ url: receiver.url });
  await emit(platform(), project.id, 'auth.login');
  await receiver.when(1);
  const [under] = await deliveriesOf(platform(), id);
  const path = `/projects/${project.id}/jobs/${under?.job_id}/cancel`;
  const cancelled = await platform().client.call('POST', path, { token: owner.token });
  t.true(cancelled.status < 300, cancelled.text);
  const [row] = await until(async () => {
    const rows = await deliveriesOf(platform(), id);
    return rows[0]?.job_id === null && rows;
  });
  // It was sent, so it counts as a try.
  t.like(row, { attempt: 1, status: 'failed', error: 'The try was cancelled.' });
  t.truthy(row?.next_attempt_at);
  t.like(await throttleOf(platform(), id), { failures: 0, failing_since: null, closed_until: null });
});

test('a new address is not turned off by the 410 of the one before', async (t) => {
  const receiver = await receiverFor(t);
  let leave: (() => void) | undefined;
  receiver.answer((response, { path }) => {
    if (path === '/new') response.end();
    else leave = () => response.writeHead(410).end();
  });
  const { made, ask, project } = await webhookScene(platform());
  const id = await made({ url: `${receiver.url}/old` });
  await emit(platform(), project.id, 'auth.login');
  await receiver.when(1);
  t.is((await ask('PUT', `/webhooks/${id}`, { url: `${receiver.url}/new` })).status, 200);
  leave?.();
  // Its next try may have come meanwhile.
  await deliveriesWhen(platform(), id, { fits: ({ status }) => status !== 'pending' });
  t.like((await ask('GET', `/webhooks/${id}`)).body, { is_active: true, disabled_reason: null, failing_since: null });
  // Its delivery goes to the new one.
  await deliveriesWhen(platform(), id, { fits: hasStatus('success') });
  t.is(receiver.received.at(-1)?.path, '/new');
});
