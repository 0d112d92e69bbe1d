import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';

const platform = usePlatform(test, { shared: true });

const javascript = `export async function handler(payload, sdk) {
  return [
    await sdk.flags.get('greeting', { targetingKey: payload.user }, 'none'),
    await sdk.flags.get('greeting', {}, 'none'),
    await sdk.flags.get('greeting', { targetingKey: payload.user }, 7),
    await sdk.flags.get('missing', 'fallback'),
    await sdk.flags.get('off', true),
    await sdk.flags.get('greeting', { targetingKey: payload.user }, 'none', { environment: 'staging' }),
  ];
}`;

const python = `def handler(payload, sdk):
    who = {'targetingKey': payload['user']}
    return [
        sdk.flags.get('greeting', who, 'none'),
        sdk.flags.get('greeting', {}, 'none'),
        sdk.flags.get('greeting', who, 7),
        sdk.flags.get('missing', 'fallback'),
        sdk.flags.get('off', True),
        sdk.flags.get('greeting', who, 'none', environment='staging'),
    ]
`;

for (const [language, code] of Object.entries({ javascript, python })) {
  test(`functions in ${language} ask for flags, and have their default for what is not known`, async (t) => {
    const { client } = platform();
    const user = await client.signUp();
    const project = await client.createProject(user);
    const manage = (method: string, path: string, body: unknown) =>
      client.call(method, `/projects/${project.id}${path}`, { token: user.token, body });
    await manage('POST', '/flags', {
      key: 'greeting',
      flag_type: 'string',
      value: 'hello',
      targeting_rules: [{ attribute: 'targetingKey', operator: 'in', values: ['u1'] }],
    });
    await manage('POST', '/flags', { key: 'off', is_enabled: false });
    const fn = await client.deploy(user, project, code, { language });
    const first = await client.invoke(user, project, fn, { user: 'u1' });
    t.deepEqual(first.body.result, ['hello', 'none', 7, 'fallback', true, 'none'], first.text);
    await manage('PATCH', '/flags/greeting', { value: 'good day' });
    await until(async () => (await client.invoke(user, project, fn, { user: 'u1' })).body.result[0] === 'good day');
  });
}
