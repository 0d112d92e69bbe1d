import test, { type ExecutionContext } from 'ava';
import type { TestProject, TestUser } from '#test/support/client.ts';
import { usePlatform } from '#test/support/platform.ts';
import { noPython } from '#test/runtimes/python-harness.ts';

const platform = usePlatform(test, { shared: true });
const pythonTest = (title: string, body: (t: ExecutionContext) => Promise<void>): void => {
  if (noPython === null) test(title, body);
  else test.skip(`${title} (${noPython})`, body);
};

let user: TestUser;
let project: TestProject;

test.before('a project with a table', async () => {
  user = await platform().client.signUp();
  project = await platform().client.createProject(user);
});

const lines = (...text: string[]): string => text.join('\n');

const invoke = async (code: string, payload: unknown, fields: Record<string, unknown> = {}) => {
  const fn = await platform().client.deploy(user, project, code, { language: 'python', ...fields });
  const { body } = await platform().client.invoke(user, project, fn, payload);
  return { fn, body };
};

pythonTest('a Python function is deployed, invoked and called by key', async (t) => {
  const code = lines(
    'import os',
    'async def main(payload, sdk):',
    '  print("got", payload["n"])',
    '  return {"twice": payload["n"] * 2, "key": sdk.env.KEY, "project": sdk.project_id, "env": os.environ["KEY"]}',
  );
  const { fn, body } = await invoke(code, { n: 21 }, { entry_point: 'main', env_vars: { KEY: 'value' } });
  t.is(body.status, 'success', JSON.stringify(body));
  t.deepEqual(body.result, { twice: 42, key: 'value', project: project.id, env: 'value' });
  t.like(body.logs[0], { level: 'info', message: 'got 21' });
  const bare = await platform().client.call('POST', `/api/functions/${fn.slug}`, { key: project.key, body: { n: 1 } });
  t.is(bare.status, 200);
  t.is(bare.body.twice, 2);
});

pythonTest('the database is read and written with %s, in transactions too', async (t) => {
  const code = lines(
    'def handler(payload, sdk):',
    '  db = sdk.db',
    '  db.query("create table things (id int primary key, name text, data bytea)")',
    '  one = db.insert("things", {"id": 1, "name": "50% é", "data": b"\\x00\\xff"})',
    '  db.insert("things", [{"id": 2, "name": "b"}, {"id": 3, "name": "c"}])',
    '  try:',
    '    with db.transaction() as tx:',
    '      tx.remove("things", "true")',
    '      raise KeyError()',
    '  except KeyError: pass',
    '  db.transaction(lambda tx: tx.update("things", {"name": "z"}, "id = %s", (3,)))',
    '  names = [row["name"] for row in db.select("things", "id > %s and name not like \'%%q\'", (1,))]',
    '  count = db.remove("things", "name = %s", ("b",))',
    '  try: db.query("select * from nowhere")',
    '  except db.DatabaseError as error: code = error.code',
    '  none = db.query_one("select * from things where id = %s", (99,))',
    '  return [one["name"], one["data"], sorted(names), count, code, none, db.query_one("select %s::int + 1 as n", (1,))]',
  );
  const { body } = await invoke(code, null);
  t.is(body.status, 'success', JSON.stringify(body));
  t.deepEqual(body.result, ['50% é', '\\x00ff', ['b', 'z'], 1, '42P01', null, { n: 2 }]);
});

const endings: Record<string, { code: string; fields?: Record<string, unknown> }> = {
  error: { code: 'def handler(payload, sdk):\n  return 1 / 0' },
  timeout: { code: 'def handler(payload, sdk):\n  while True: pass', fields: { timeout_ms: 300 } },
  memory_limit: { code: 'def handler(payload, sdk):\n  return len(bytearray(1 << 30))', fields: { memory_mb: 64 } },
  result_too_large: { code: 'def handler(payload, sdk):\n  return "x" * 1100000' },
  crashed: { code: 'import os\ndef handler(payload, sdk):\n  os._exit(1)' },
};
for (const [status, { code, fields }] of Object.entries(endings)) {
  pythonTest(`a Python function can end with ${status}`, async (t) => {
    const { body } = await invoke(code, null, fields);
    t.is(body.status, status, JSON.stringify(body));
    t.is(body.result, null);
  });
}
