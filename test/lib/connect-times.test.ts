import test from 'ava';
import { createConnectTimes } from '#lib/connect-times.ts';

const started = () => {
  let clock = 0;
  const times = createConnectTimes(() => clock);
  return { ...times, pass: (ms: number) => (clock += ms) };
};

test('where connections are fast, a new one may take the usual time', (t) => {
  const times = started();
  t.is(times.patience(700), 700);
  times.note(3);
  t.is(times.patience(700), 700);
});

test('where one was slow within the last minute, a new one may take four times as long, and 6 s at most', (t) => {
  const times = started();
  times.note(500);
  times.note(20);
  t.is(times.patience(700), 2000);
  times.note(1700);
  t.is(times.patience(700), 6000);
});

test('a slow connection is forgotten after a minute', (t) => {
  const times = started();
  times.note(1000);
  times.pass(59_000);
  t.is(times.patience(700), 4000);
  times.pass(1000);
  t.is(times.patience(700), 700);
  times.note(300);
  t.is(times.patience(700), 1200);
});
