import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';
import { startSmtp } from '#test/support/smtp.ts';
import { mailProject } from './scene.ts';

// As an installation that is not a developer's machine, with this machine open to the test's servers.
const platform = usePlatform(test, { settings: { PLINTH_LOCAL: 'off', PLINTH_EGRESS_ALLOW: '127.0.0.0/8' } });

test('with nothing configured a test is 409, and no job is made', async (t) => {
  const { call, sendTest } = await mailProject(platform());
  const answer = await sendTest();
  t.deepEqual([answer.status, answer.body.code], [409, 'smtp_not_configured']);
  t.is((await call('GET', '/jobs?type=email.send')).body.total, 0);
});

test('without TLS nothing is sent, to this machine neither', async (t) => {
  const server = await startSmtp({ user: { name: 'shop', password: 'right' } });
  t.teardown(server.close);
  const scene = await mailProject(platform(), { port: server.port, username: 'shop', password: 'right' });
  const answer = await scene.sendTest();
  t.deepEqual([answer.status, answer.body.code], [502, 'mail_rejected']);
  t.regex(answer.body.message, /no safe connection/);
  t.is(server.mails.length, 0);
});
