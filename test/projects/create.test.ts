import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test);

test('a project is usable when its creation is answered', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user, { name: 'Blog' });
  const got = await client.call('GET', `/projects/${project.id}`, { token: user.token });
  t.is(got.status, 200);
  t.like(got.body, { name: 'Blog', status: 'active', org_id: project.orgId });
  t.regex(project.dbName, /^plinth_[a-z0-9]{16}_p_/);
});
