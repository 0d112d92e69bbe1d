import test from 'ava';
import { createOrganization, memberIdOf } from '#test/support/organization.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type EventSource, listen } from '#test/support/sse.ts';
import { until } from '#test/support/until.ts';

const platform = usePlatform(test, { shared: true });

const endless = 'export const handler = () => new Promise(() => {});';

/** A job that goes on, and a listener's stream of it for any member. */
const scene = async () => {
  const { client, base } = platform();
  const org = await createOrganization(platform());
  const { owner } = org.members;
  const project = await client.createProject(owner, { org_id: org.id });
  const fn = await client.deploy(owner, project, endless, { timeout_ms: 300_000 });
  const started = await client.call('POST', `/projects/${project.id}/functions/${fn.id}/invoke`, {
    token: owner.token,
    headers: { prefer: 'respond-async' },
    body: { payload: {} },
  });
  const id = String(started.body.job_id);
  const follow = async (token: string, path = `jobs/${id}/events`): Promise<EventSource> => {
    const source = await listen(`${base}/projects/${project.id}/${path}`, token, { accept: 'text/event-stream' });
    if (source.status !== 200) throw new Error(String(source.status));
    return source;
  };
  const end = () => client.call('POST', `/projects/${project.id}/jobs/${id}/cancel`, { token: owner.token });
  return { org, project, fn, id, follow, end };
};

/** Whether a stream goes on is known by what comes after: the end of the job. */
const untilEnded = async (source: EventSource): Promise<void> => {
  await until(() => source.events.some(({ event, data }) => event === 'status' && data.status === 'cancelled'));
  await source.end;
};

test('streams end with the membership and with the sign-in of the listener, and nobody else’s', async (t) => {
  const { client } = platform();
  const at = await scene();
  const { owner, viewer, developer } = at.org.members;
  const [removed, signedOut, goesOn] = await Promise.all([
    at.follow(viewer.token),
    at.follow(developer.token),
    at.follow(owner.token),
  ]);
  const viewerId = await memberIdOf(platform(), at.org.id, viewer.id);
  t.is((await at.org.as('owner', 'DELETE', `/team/members/${viewerId}`)).status, 204);
  t.is((await client.call('POST', '/auth/logout', { token: developer.token, body: {} })).status, 204);
  await Promise.all([removed.end, signedOut.end]);
  t.true(removed.events.length > 0);
  const received = [...removed.events, ...signedOut.events];
  t.false(received.some(({ data }) => data.status === 'cancelled'));
  t.is((await at.end()).status, 200);
  await untilEnded(goesOn);
});

test('the log of a run ends for a member who is removed', async (t) => {
  const at = await scene();
  const { viewer } = at.org.members;
  const source = await at.follow(viewer.token, `functions/${at.fn.id}/invocations/${at.id}`);
  const viewerId = await memberIdOf(platform(), at.org.id, viewer.id);
  t.is((await at.org.as('owner', 'DELETE', `/team/members/${viewerId}`)).status, 204);
  await source.end;
  t.false(source.events.some(({ event }) => event === 'end'));
  await at.end();
});
