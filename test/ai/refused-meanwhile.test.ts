import test from 'ava';
import { ServiceError } from '#lib/errors.ts';
import { until } from '#test/support/until.ts';
import { chatRequest, gatewayAlone, refused } from './gateway-alone.ts';
import { hardBudget, madeEnd, madeIntent, monthOf, refusalOf, rowsOf, useUsageScene } from './usage-scene.ts';

const scene = useUsageScene(test);

test('what a provider refuses is told once the call is recorded', async (t) => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const { gateway, caller, upstream } = await gatewayAlone(t, { recorded: () => promise });
  let reported = 0;
  const both = [gateway.chat(caller, chatRequest('ERR401')), gateway.stream(caller, chatRequest('ERR401'))];
  for (const call of both) call.catch(() => (reported += 1));
  await until(() => upstream.requests.length === 2 && upstream.requests.every(({ finished }) => finished));
  // A later request is answered: so would this one be, were it not for its record.
  await fetch(`${upstream.openai}/models`);
  t.is(reported, 0);
  resolve();
  for (const call of both) t.is((await refused(call)).code, 'provider_auth_failed');
});

test('a call that cannot be recorded is refused for that, whatever its provider said', async (t) => {
  const away = new ServiceError('dependency_unavailable', 'The call cannot be recorded just now.');
  const { promise, reject } = Promise.withResolvers<void>();
  const { gateway, caller, upstream } = await gatewayAlone(t, { recorded: () => promise });
  const call = refused(gateway.chat(caller, chatRequest('ERR401')));
  const tested = refused(gateway.test(caller, 'openai'));
  await until(() => upstream.requests.length === 2 && upstream.requests.every(({ finished }) => finished));
  reject(away);
  t.is(await call, away);
  t.is(await tested, away);
});

test('a call that a budget refuses once its provider was asked has a row and counts, one that never was has none', async (t) => {
  const { db, createProject, openLog } = scene();
  const project = await createProject(hardBudget(100));
  const log = openLog();
  const [requested, unasked] = [500, 600].map((reserveNanoUsd) => log.begin(madeIntent(project, { reserveNanoUsd })));
  for (const call of [requested, unasked])
    t.is(await refusalOf(call?.recorded ?? Promise.resolve()), 'budget_exceeded');
  const how = { status: 'error', errorCode: 'budget_exceeded', costNanoUsd: 7 } as const;
  requested?.end(madeEnd({ ...how, givenUp: true }));
  unasked?.end(madeEnd({ ...how, givenUp: false }));
  await log.settled();
  const rows = await rowsOf(db, project);
  t.is(rows.length, 1);
  t.like(rows[0], { status: 'error', error_code: 'budget_exceeded', cost_nano_usd: 7 });
  t.deepEqual(await monthOf(db, project), { used: 7, reserved: 0 });
});
