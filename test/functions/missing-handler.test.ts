import test, { type ExecutionContext } from 'ava';
import { compileFunction } from '#domain/functions/compile.ts';
import { createPythonChecker, findPython } from '#domain/functions/python.ts';
import { ServiceError } from '#lib/errors.ts';
import type { TestProject, TestUser } from '#test/support/client.ts';
import { usePlatform } from '#test/support/platform.ts';

const pythonTest = (await findPython(undefined)) === null ? test.skip : test;
const platform = usePlatform(test);
const python = createPythonChecker(undefined);

let user: TestUser;
let project: TestProject;

test.before('a project', async () => {
  user = await platform().client.signUp();
  project = await platform().client.createProject(user);
});

const refusal = async (t: ExecutionContext, work: Promise<unknown>, about: string): Promise<string> => {
  const error = await t.throwsAsync(work, { instanceOf: ServiceError, code: 'validation_failed' }, about);
  return error?.message ?? '';
};

const lacking: Readonly<Record<string, string>> = {
  'function handler() {}': 'nothing',
  'export const main = () => 1; export function other() {}': '"main", "other"',
  'exports.main = () => 1': '"main"',
  'module.exports.main = () => 1': '"main"',
  'module.exports = { main, other: main }; function main() {}': '"main", "other"',
  'Object.defineProperty(exports, "__esModule", { value: true }); exports.main = async function handler() {}': '"main"',
  'export const main = await Promise.resolve(() => 1)': '"main"',
  'class A { exported() { return this } } await 0': 'nothing',
  'export { handler as main }; const handler = 1; export type handler2 = 1': '"main"',
};

test('JavaScript that certainly exports no such function is refused, with the names that it exports', async (t) => {
  for (const [code, found] of Object.entries(lacking)) {
    const message = await refusal(t, compileFunction(code, 'handler'), code);
    t.is(message, `The code exports no function named "handler"; it exports ${found}.`, code);
  }
});

const perhaps: readonly string[] = [
  'export { inner as handler }; function inner() {}',
  'export { inner as "handler" }; function inner() {}',
  'export default {}',
  'export default class {}',
  'const handler = () => 1; export { handler as default }',
  'export const main = 1; module.exports.handler = () => 1',
  'exports["handler"] = () => 1',
  'exports.h\\u0061ndler = () => 1',
  'exports.a = exports.handler = () => 1',
  'for (const name of ["handler"]) exports[name] = () => 1',
  'module.exports = () => 1',
  'module.exports = { ...{ handler() {} } }',
  'module.exports = { main } && { handler() {} }; function main() {}',
  'module.exports = { ["hand" + "ler"]: () => 1 }',
  'Object.assign(exports, { handler() {} })',
  'exports.default = () => 1',
  'exports.__proto__ = { handler() {} }',
  'this.handler = () => 1',
  '(() => { this.handler = () => 1 })()',
  '(function () { this.handler = () => 1 }).call(this)',
  'arguments[0].handler = () => 1',
  'eval("exports.handler = () => 1")',
  '(function (root, factory) { factory(typeof exports === "object" ? exports : root) })(this, (to) => { to.handler = () => 1 })',
  'await null; exports.handler = () => 1',
];

test('JavaScript that may export its handler is left to the run', async (t) => {
  for (const code of perhaps) await t.notThrowsAsync(compileFunction(code, 'handler'), code);
  await t.notThrowsAsync(compileFunction('exports.main = 1', 'toString'));
  await t.notThrowsAsync(compileFunction('exports.main = 1'));
});

pythonTest('Python that certainly defines no such function is refused, with the names that it defines', async (t) => {
  const lackingPython: Readonly<Record<string, string>> = {
    'import json\ndef main(payload, sdk): return 1': '"json", "main"',
    'class A:\n  def handler(self): pass': '"A"',
    'def outer():\n  def handler(payload, sdk): pass\n  return handler': '"outer"',
    'handler: int': 'nothing',
    'import re\nx = re.compile("handler")\nprint(x.handler)': '"re", "x"',
  };
  for (const [code, found] of Object.entries(lackingPython)) {
    const message = await refusal(t, python.check(code, undefined, 'handler'), code);
    t.is(message, `The code defines no function named "handler"; it defines ${found}.`, code);
  }
  const many = Array.from({ length: 3000 }, (_, i) => `name_${i} = ${i}`).join('\n');
  t.regex(await refusal(t, python.check(many, undefined, 'handler'), 'many'), /"name_0", .* and 2980 more\.$/);
  await t.notThrowsAsync(python.check(many, undefined, 'name_2999'));
});

pythonTest('Python that may define its handler is left to the run', async (t) => {
  for (const code of [
    'async def handler(payload, sdk): pass',
    'if 1 < len("ab"):\n  def handler(payload, sdk): pass',
    'try:\n  from nowhere import handler\nexcept ImportError:\n  pass',
    'from functools import partial as handler',
    'import handler.inner',
    'from os.path import *',
    'handler = wrap(lambda payload, sdk: 1)',
    'other, (*handler, last) = 1, (2, 3)',
    '[handler := f for f in [print]]',
    'def make():\n  global handler\n  def handler(payload, sdk): pass\nmake()',
    'class A:\n  global handler\n  def handler(payload, sdk): pass',
    'globals()["handler"] = print',
    'exec("def handler(payload, sdk): pass")',
    'import sys\nsys.modules[__name__].handler = print',
    'import __main__\n__main__.handler = print',
    'import importlib.util as u',
    'def f(): pass\nf.__globals__["handler"] = print',
  ]) {
    await t.notThrowsAsync(python.check(code, undefined, 'handler'), code);
  }
});

const deploy = (body: Readonly<Record<string, unknown>>) =>
  platform().client.call('POST', `/projects/${project.id}/functions`, { token: user.token, body });

test('a deploy without its handler is 400, and nothing is deployed', async (t) => {
  const body = { name: 'lacking', language: 'javascript', code: 'exports.main = () => 1' };
  const refused = await deploy(body);
  t.is(refused.status, 400);
  t.like(refused.body, { code: 'validation_failed', details: [{ path: 'entry_point' }] });
  t.is(refused.body.message, 'The code exports no function named "handler"; it exports "main".');
  t.is((await deploy({ ...body, entry_point: 'main' })).status, 201);
});

pythonTest('a deploy of Python without its handler is 400', async (t) => {
  const refused = await deploy({ name: 'lacking-py', language: 'python', code: 'def main(payload, sdk): return 1' });
  t.is(refused.status, 400, refused.text);
  t.is(refused.body.message, 'The code defines no function named "handler"; it defines "main".');
});

test('a change of the code or of the entry point is checked against the other one', async (t) => {
  const { id } = await platform().client.deploy(user, project, 'exports.handler = exports.main = () => 1');
  const change = (body: Readonly<Record<string, unknown>>) =>
    platform().client.call('PATCH', `/projects/${project.id}/functions/${id}`, { token: user.token, body });
  t.is((await change({ entry_point: 'absent' })).status, 400);
  t.is((await change({ entry_point: 'main' })).status, 200);
  t.is((await change({ code: 'exports.handler = () => 2' })).status, 400);
  const both = await change({ code: 'exports.other = () => 2', entry_point: 'other' });
  t.like(both.body, { version: 3, entry_point: 'other', code: 'exports.other = () => 2' });
});
