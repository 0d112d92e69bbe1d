import test from 'ava';
import { compileFunction } from '#domain/functions/compile.ts';
import { usesSteps } from '#domain/functions/uses-steps.ts';

const ofJavascript = async (source: string): Promise<boolean> => {
  const { code: compiled } = await compileFunction(source);
  return usesSteps('javascript', { code: source, files: null, compiled });
};
const ofPython = (code: string): boolean => usesSteps('python', { code, files: null, compiled: code });

test('code that takes step from its SDK in a usual way has steps', async (t) => {
  for (const source of [
    'exports.handler = async (payload, { step }) => step.run("a", () => 1);',
    'export default async function handler(payload, { db, step: s }) { return s.sleep(1); }',
    'export const handler = async (payload: unknown, { step }: { step: any }) => step.run("a", () => 1);',
    'export const handler = (payload, sdk) => sdk.step.run("a", () => 1);',
    'export async function handler(payload, sdk) { const { step, db } = sdk; return step.all([]); }',
    'module.exports = { handler(payload, { step }) { return step.run("a", () => 1); } };',
  ]) {
    t.true(await ofJavascript(source), source);
  }
  t.true(ofPython('def handler(payload, sdk):\n    return sdk.step.run("a", lambda: 1)\n'));
  t.true(usesSteps('python', { code: '', files: JSON.stringify({ 'a.py': 'sdk.step.sleep(1)' }), compiled: '' }));
});

test('code that has steps of its own, or speaks of them, has none of the platform', async (t) => {
  for (const source of [
    'exports.handler = async (payload) => { for (const step of [f]) await step.run(); };',
    'exports.handler = (payload, { db }) => range(0, 10, { step: 2 });',
    'exports.handler = (payload, { db }) => { if (fits(payload, { step: 2 })) { return 1; } };',
    '// Call sdk.step.run here one day: (payload, { step }) => {}\nexports.handler = () => 1;',
    'exports.handler = (payload, sdk) => sdk.steps + mysdk.stepper;',
  ]) {
    t.false(await ofJavascript(source), source);
  }
  t.false(ofPython('def handler(payload, sdk):\n    step = wizard.step\n    return step.run()\n'));
});

test('a megabyte of what looks like a beginning is read within the time of a test', (t) => {
  for (const part of [',{', ',{step ', ',{step}) ', '{step}= ', '{step} ', ', ']) {
    const compiled = part.repeat(1024 * 1024);
    t.false(usesSteps('javascript', { code: '', files: null, compiled: compiled.slice(0, 1024 * 1024) }), part);
  }
});
