import test from 'ava';
import { opsToken, usePlatform } from '#test/support/platform.ts';
import { sendDueMail } from '#workers/mail/sender.ts';
import { openMailScene } from './scene.ts';

const platform = usePlatform(test, { worker: false, settings: { PLINTH_LOCAL: 'off' } });

const seen = async (to: string) => {
  const { body } = await platform().client.call('GET', '/ops/api/mail?limit=200', { token: opsToken });
  return (body.mails as { id: string; recipient: string; status: string; body: string | null }[]).find(
    (mail) => mail.recipient === to,
  );
};

test.serial('in production operators read no mail that is on its way or was sent', async (t) => {
  const scene = await openMailScene(platform());
  t.teardown(scene.close);
  await scene.write('reader@example.com');
  const queued = await seen('reader@example.com');
  t.like(queued, { status: 'queued', body: null });
  const path = `/ops/api/mail/${queued?.id}/html`;
  t.is((await platform().client.call('GET', path, { token: opsToken })).status, 404);
  await sendDueMail(scene.deps);
  t.like(await seen('reader@example.com'), { status: 'sent', body: null });
});

test.serial('what nothing can deliver is theirs to read, and cannot be sent while there is no server', async (t) => {
  const scene = await openMailScene(platform());
  t.teardown(scene.close);
  await scene.write('unsent@example.com');
  await sendDueMail({ ...scene.deps, server: null });
  const kept = await seen('unsent@example.com');
  t.is(kept?.status, 'kept');
  t.true(kept?.body?.includes('secret-token'));
  const answer = await platform().client.call('POST', `/ops/api/mail/${kept?.id}/retry`, { token: opsToken });
  t.is(answer.status, 409);
  t.is(answer.body.code, 'smtp_not_configured');
});
