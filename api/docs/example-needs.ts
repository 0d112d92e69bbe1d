import type { Endpoint } from '#api/endpoint.ts';

/**
 * Texts of the page at /docs for values that exist only after another call, and the values that it fills in by itself.
 */

type Route = Pick<Endpoint, 'method' | 'path'>;

export interface PathValue {
  /** Where the value comes from. */
  readonly description?: string;
  /** The objects that the examples of other calls have made. */
  readonly example?: string;
}

const ofMail = 'The last part of the link in the mail.';
const ofProject = 'of a project: `POST /projects` answers it, `GET /projects` lists it.';

/** Parameters that no call above them in the path makes or lists. */
const written: readonly (readonly [RegExp, PathValue])[] = [
  [/\{token\}$/, { description: ofMail }],
  [/^\/p\/\{ref\}$/, { description: `The \`ref\` ${ofProject}` }],
  [/^\/(?:hooks|oauth)\/\{project_id\}$/, { description: `The \`id\` ${ofProject}` }],
  [/^\/hooks\/\{project_id\}\/\{provider\}$/, { description: 'A payment provider.', example: 'stripe' }],
  [/^\/api\/jobs\/\{job_id\}$/, { description: 'The `job_id` of a call that was answered with 202.' }],
  [/^\/hooks\/events\/\{event_id\}$/, { description: 'Stands in the `data_url` of a delivery.' }],
  [
    /\/rpc\/\{function\}$/,
    { description: 'A function of the database: `POST /projects/{project_id}/db/query` makes it.' },
  ],
  [/\/tables\/\{table\}$/, { example: 'guests' }],
  [/\/\{table\}$/, { description: 'A table: `POST /projects/{project_id}/db/tables` makes it.', example: 'guests' }],
  [/\/\{table\}\/\{id\}$/, { description: 'The primary key of a row.', example: '1' }],
  [
    /\/factors\/\{factor_id\}$/,
    { description: 'The `id` of a factor: `POST /p/{ref}/auth/v1/factors` answers it, and the user lists it.' },
  ],
  [
    /^\/ops\/api\/organizations\/\{org_id\}$/,
    { description: 'The `org_id` of an organization: `GET /team/orgs` lists those of its members.' },
  ],
  [/\/interaction\/\{uid\}$/, { description: 'Stands in the address that `authorize` leads to.' }],
  [/\/\{bucket\}$/, { description: 'A bucket: `POST /p/{ref}/storage/v1/bucket` makes it.', example: 'pictures' }],
  [/\/\{bucket\}\/\{path\}$/, { description: 'The name of an object, its slashes too.', example: 'ada/picture.png' }],
  [
    /\/\{upload_id\}$/,
    { description: 'The last part of the `Location` that `POST /p/{ref}/storage/v1/upload/resumable` answers.' },
  ],
  [/\/columns\/\{column\}$/, { example: 'age' }],
  [/\/constraints\/\{constraint\}$/, { example: 'age_is_positive' }],
  [/\/indexes\/\{index\}$/, { example: 'guests_by_name' }],
  [/\/policies\/\{policy\}$/, { example: 'everyone reads' }],
  [/\/enums\/\{enum\}$/, { example: 'mood' }],
  [
    /\/(?:functions|v1)\/\{slug\}$/,
    { description: 'The `slug` of a function: `POST /projects/{project_id}/functions` answers it.', example: 'greet' },
  ],
  [/\/\{slug\}\/\{path\}$/, { description: 'The path below the function, its slashes too.', example: 'hello' }],
  [
    /\/flags\/\{key\}$/,
    { description: 'A flag: `POST /projects/{project_id}/flags` makes it.', example: 'new-checkout' },
  ],
  [/\/\{collection\}$/, { example: 'notes' }],
  [/\/documents\/\{document\}$/, { description: 'The id of a document: an upsert answers it.' }],
  [/\/versions\/\{v\}$/, { example: '1' }],
  [/\/examples\/\{example\}$/, { description: 'A `name` of `GET /projects/examples`.', example: 'todo' }],
  [/\/ai\/providers\/\{provider\}$/, { example: 'openai' }],
  [/\/auth\/providers\/\{provider\}$/, { example: 'google' }],
  [/\/identities\/\{identity_id\}$/, { description: 'An `identity_id` of the user.' }],
  [/\/integrations\/providers\/\{provider\}$/, { example: 'slack' }],
];

/** By the whole path: there the same parameter is something else than below it. */
const ofPath: Readonly<Record<string, PathValue>> = {
  '/ops/api/projects/{project_id}/restore': { description: '`GET /ops/api/projects/deleted` lists it.' },
};

/** The calls at the path above a parameter that create and list its objects. */
const sourceOf = (above: string, routes: readonly Route[]): string | undefined => {
  const has = (method: string): boolean => routes.some((one) => one.method === method && one.path === above);
  const ways = [
    ...(has('post') ? [`\`POST ${above}\` answers it`] : []),
    ...(has('get') ? [`\`GET ${above}\` lists it`] : []),
  ];
  return ways.length === 0 ? undefined : `${ways.join(', ')}.`;
};

/**
 * Where the value of a path parameter comes from, and one that fits after the examples of the calls before.
 * @param routes all that there are
 */
export const pathValueOf = (path: string, name: string, routes: readonly Route[]): PathValue => {
  const [above = ''] = path.split(`/{${name}}`, 1);
  const [, known = {}] = written.find(([pattern]) => pattern.test(`${above}/{${name}}`)) ?? [];
  const { description = sourceOf(above, routes), example } = ofPath[path] ?? known;
  return { ...(description !== undefined && { description }), ...(example !== undefined && { example }) };
};

const aModel =
  'Needs a provider of models with a key (`POST /projects/{project_id}/ai/providers`), and one of its models as `model`.';
const aMailServer = 'Needs a mail server: `PUT /projects/{project_id}/email/smtp`.';
const anIntegration =
  'Needs a provider with its secrets: `PUT /projects/{project_id}/integrations/providers/{provider}`.';

/** Objects that a body needs and the examples before it have not made; the first pattern counts. */
const needs: readonly (readonly [RegExp, string])[] = [
  [/^post \/dashboard\/session\/factor$/, 'Needs the `factor_token` of `POST /dashboard/session` and a code.'],
  [/^post \/auth\/device\/token$/, 'Needs the `device_code` of `POST /auth/device`, and its approval at `/device`.'],
  [
    /^post \/(?:auth\/device\/(?:approve|deny)|device)$/,
    'Needs the cookie of `POST /dashboard/session`, and its page.',
  ],
  [/^post \/auth\/refresh$/, 'Needs the `refresh_token` that `POST /auth/login` answered.'],
  [/^post \/auth\/confirm$/, 'Needs the token in the mail of `POST /auth/confirmation`.'],
  [/^post \/auth\/reset$/, 'Needs the token in the mail of `POST /auth/forgot`.'],
  [/^post \/auth\/login\/factor$/, 'Needs the `factor_token` of `POST /auth/login` and a code of the second factor.'],
  [
    /^(?:post|delete) \/auth\/factors\/\{id\}/,
    'Needs a code that an authenticator shows for the `secret` of `POST /auth/factors`.',
  ],
  [
    /^post \/dashboard\/session\/factor$/,
    'Needs the `factor_token` of `POST /dashboard/session` and a code of the second factor.',
  ],
  [
    /^post (?:\/auth)?\/device(?:\/token|\/approve|\/deny)?$/,
    'Needs the codes of `POST /auth/device`, and somebody who is signed in to the dashboard.',
  ],
  [/^put \/ops\/api\/organizations\//, 'Needs an organization: `GET /team/orgs` lists those of its members.'],
  [/^delete \/auth\/me$/, 'Needs the password of the account.'],
  [
    /^post \/p\/\{ref\}\/auth\/v1\/token$/,
    'Needs the query `grant_type=password` and a user of the project: `POST /p/{ref}/auth/v1/signup` makes one.',
  ],
  [
    /\/auth\/v1\/(?:user|logout|factors.*)$/,
    'Needs the `access_token` that `POST /p/{ref}/auth/v1/signup` answered, beside the key.',
  ],
  [
    /\/auth\/v1\/(?:recover|otp|magiclink|resend|verify|verify\/confirm|invite|callback)$/,
    'Needs a user of the project, and the link or the code in the mail that the call before has sent.',
  ],
  [
    /\/storage\/v1\/(?:render|object)\/(?:image|move|copy|sign|upload)/,
    'Needs an object, or a signed address: `POST /p/{ref}/storage/v1/object/{bucket}/{path}` uploads the body as one.',
  ],
  [/\/storage\/v1\/folder\/(?:check|move|copy)$/, 'Needs files whose names begin with the folder.'],
  [/^(?:post|put) .*\/storage\/v1\/object\/\{bucket\}\/\{path\}$/, 'The body is the file, of any type; PUT needs one.'],
  [/\/upload\/resumable/, 'Needs the headers of tus: a client such as tus-js-client sends them.'],
  [/^post .*\/webhooks\/listen$/, 'Needs a `secret` of yours to sign with; the answer goes on until you leave.'],
  [/\{token\}/, 'Needs the link of a mail.'],
  [
    /^post \/oauth\/\{project_id\}\//,
    'Needs a client (`POST /projects/{project_id}/oauth/clients`) and a user who signs in at `authorize`.',
  ],
  [/^post \/auth\/confirmation$/, 'Needs an address that is not confirmed yet, and platform mail (PLINTH_SMTP_URL).'],
  [
    /^post \/team\/orgs\/current\/transfer$/,
    'Needs the id of another member, who accepted an invite: `GET /team/members` lists it.',
  ],
  [/^(?:patch|post) \/team\/members\/\{id\}/, 'Needs another member: `POST /team/invite` invites one.'],
  [/\/ai\/providers\/|\/ai\/vectors\/collections\/\{|\/(?:chat|stream|completions|embeddings|arena|generate)$/, aModel],
  [
    /^put .*\/integrations\/providers\/|^post \/hooks\//,
    'Needs an account with the provider: its secrets go into `config`.',
  ],
  [/\/integrations\/providers\/\{provider\}\//, anIntegration],
  [/\/email\/(?:smtp\/test|templates\/\{type\}\/send-test)$/, aMailServer],
  [/^post \/projects\/\{project_id\}\/users\/invite$/, aMailServer],
  [
    /\/rerun$|\/jobs\/\{job_id\}\/(?:cancel|retry)$/,
    'Needs a run in a state that allows it: one that ended badly for a retry, one that waits or runs for a cancel.',
  ],
  [
    /\/auth\/settings\/(?:captcha|breached-passwords)\/test$/,
    'Needs a service that can be reached from the platform; for a captcha its secret, too.',
  ],
  [/\/auth\/settings\/claims\/test$/, 'Needs a function of the project, and a user.'],
  [/\/flags\/\{key\}\/schedule$/, 'Needs a time within the next year as `at`.'],
  [/\/ai\/(?:schema|rls)\/apply$/, 'Needs `"approved": true`, which somebody gives who has read the statement.'],
  [/\/ai\/vectors\/(?:setup|collections)$/, 'Needs the extension `vector` on the database server.'],
  [/\/webhooks\/\{webhook_id\}\/test$/, 'Needs an address of yours that answers, as `url` of the webhook.'],
  [/\/email\/mails\/\{email_id\}\//, 'Needs a mail of the project that was not delivered.'],
  [/\/deliveries\/\{did\}\//, 'Needs a delivery: the test of a webhook makes one.'],
  [/\/mail\/\{mail_id\}\//, 'Needs a mail of the platform that failed.'],
  [/\/projects\/\{project_id\}\/restore$/, 'Needs a deleted project whose database is still kept.'],
  [
    /^(?:put|patch) .*(?<!\/tables)\/\{table\}$/,
    'Needs a filter in the query, such as `id=eq.1`: a PUT is refused without one, a PATCH changes every row.',
  ],
  [/\/rpc\//, 'Needs a function of the database, and a body with its arguments.'],
  [/^post \/ops\/session$/, 'Needs the operators’ token (PLINTH_OPS_TOKEN).'],
];

/** Returns the objects that the example of a body requires; undefined: none but those of the calls before it. */
export const needOf = ({ method, path }: Route): string | undefined =>
  needs.find(([pattern]) => pattern.test(`${method} ${path}`))?.[1];
