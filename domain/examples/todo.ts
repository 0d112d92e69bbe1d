import type { Example } from './example.ts';

const sql = `create table todos (
  id bigint generated always as identity primary key,
  owner uuid not null default auth.uid() references auth.users (id) on delete cascade,
  title text not null check (length(title) between 1 and 200),
  done boolean not null default false,
  created_at timestamptz not null default now()
);
create index todos_owner on todos (owner);

-- Everybody sees and changes what is their own, and nothing else.
alter table todos enable row level security;
create policy "own to-dos" on todos for all to authenticated
  using (owner = auth.uid()) with check (owner = auth.uid());

create table ideas (
  id bigint generated always as identity primary key,
  title text not null
);
alter table ideas enable row level security;
create policy "everybody reads" on ideas for select using (true);
insert into ideas (title) values ('Water the plants'), ('Call a friend'), ('Read a chapter');
`;

const summary = `// Policies hold here: the rows are those of the user who calls.
export const handler = async (payload, { asCaller }) => {
  const { open, done } = await asCaller.db.queryOne(
    'select count(*) filter (where not done)::int as open, count(*) filter (where done)::int as done from todos',
  );
  return { open, done };
};
`;

const javascript = `const url = '{{rest_url}}';
const key = '{{publishable_key}}';

const call = async (path, { token = key, body } = {}) => {
  const answer = await fetch(url + path, {
    method: body ? 'POST' : 'GET',
    headers: {
      apikey: key,
      authorization: 'Bearer ' + token,
      'content-type': 'application/json',
      prefer: 'return=representation',
    },
    ...(body && { body: JSON.stringify(body) }),
  });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
};

// A new user of the app, who is signed in at once.
const user = { email: 'ada-' + Date.now() + '@example.com', password: 'correct horse battery' };
const { access_token: token } = await call('/auth/v1/signup', { body: user });

await call('/rest/v1/todos', { token, body: { title: 'Write a test' } });
console.log(await call('/rest/v1/todos?select=title,done', { token }));
console.log(await call('/functions/v1/todo-summary', { token, body: {} }));
`;

const python = `import json, time, urllib.request

url = "{{rest_url}}"
key = "{{publishable_key}}"


def call(path, body=None, token=key):
    headers = {
        "apikey": key,
        "authorization": "Bearer " + token,
        "content-type": "application/json",
        "prefer": "return=representation",
    }
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url + path, data, headers)) as answer:
        return json.load(answer)


# A new user of the app, who is signed in at once.
user = {"email": f"ada-{time.time_ns()}@example.com", "password": "correct horse battery"}
token = call("/auth/v1/signup", user)["access_token"]

call("/rest/v1/todos", {"title": "Write a test"}, token)
print(call("/rest/v1/todos?select=title,done", token=token))
print(call("/functions/v1/todo-summary", {}, token))
`;

const curl = `URL='{{rest_url}}'
KEY='{{publishable_key}}'

# A new user of the app, who is signed in at once.
TOKEN=$(curl -sf "$URL/auth/v1/signup" -H "apikey: $KEY" -H 'content-type: application/json' \\
  -d '{"email":"ada-'$(date +%s%N)'@example.com","password":"correct horse battery"}' |
  sed 's/.*"access_token":"\\([^"]*\\)".*/\\1/')

curl -sf "$URL/rest/v1/todos" -H "apikey: $KEY" -H "authorization: Bearer $TOKEN" \\
  -H 'content-type: application/json' -d '{"title":"Write a test"}'
curl -sf "$URL/rest/v1/todos?select=title,done" -H "apikey: $KEY" -H "authorization: Bearer $TOKEN"
curl -sf "$URL/functions/v1/todo-summary" -H "apikey: $KEY" -H "authorization: Bearer $TOKEN" \\
  -H 'content-type: application/json' -d '{}'
`;

export const todo: Example = {
  name: 'todo',
  title: 'To-do app with sign-in',
  summary: 'Users sign up, and each of them sees and changes only their own rows.',
  makes: [
    'Table todos, with a policy that gives each user their own rows',
    'Table ideas with three rows, which everybody may read',
    'Function todo-summary, which runs as the user who calls it',
  ],
  sql,
  functions: [{ name: 'todo-summary', code: summary, access: 'user' }],
  code: { javascript, python, curl },
};
