import test from 'ava';
import { createConnectTimes } from '#lib/connect-times.ts';

const started = (lagged = false) => {
  let clock = 0;
  const times = createConnectTimes(
    () => clock,
    () => lagged,
  );
  return { ...times, pass: (ms: number) => (clock += ms) };
};

test('where connections are fast, a new one may take the usual time', (t) => {
  const times = started();
  t.is(times.patience(700), 700);
  times.note(3);
  t.is(times.patience(700), 700);
});

test('where one was slow lately, a new one may take four times as long, and 6 s at most', (t) => {
  const times = started();
  times.note(500);
  times.note(20);
  t.is(times.patience(700), 2000);
  times.note(1700);
  t.is(times.patience(700), 6000);
});

test('a slow connection counts for half a minute and is forgotten after a minute, a later one on its own', (t) => {
  const times = started();
  times.note(1000);
  times.pass(40_000);
  times.note(900);
  t.is(times.patience(700), 4000);
  times.pass(25_000);
  t.is(times.patience(700), 3600);
  times.pass(30_000);
  t.is(times.patience(700), 700);
});

test('a connection that took long because this process lagged says nothing about the server', (t) => {
  const times = started(true);
  times.note(1500);
  t.is(times.patience(700), 700);
});
