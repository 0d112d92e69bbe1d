import test from 'ava';
import { minIntervalSeconds, parseExpression } from '#domain/cron/expression.ts';
import { ServiceError } from '#lib/errors.ts';

const messageOf = (text: string): string => {
  try {
    parseExpression(text);
  } catch (error) {
    if (error instanceof ServiceError && error.code === 'validation_failed') {
      const [{ path, message }] = error.details as [{ path: string; message: string }];
      return `${path}: ${message}`;
    }
    throw error;
  }
  return 'accepted';
};

const sorted = (values: ReadonlySet<number>): number[] => [...values].toSorted((a, b) => a - b);

test('five fields fire at second 0, six have the second first', (t) => {
  t.deepEqual(parseExpression('5 4 * * *').seconds, [0]);
  const six = parseExpression('30 5 4 * * *');
  t.deepEqual([six.seconds, six.minutes, six.hours], [[30], [5], [4]]);
});

test('lists, ranges, steps and names are read', (t) => {
  const e = parseExpression(' 1,5-7,50/4  */6 1-10/3 jan,Mar-MAY mon-wed,5 ');
  t.deepEqual(e.minutes, [1, 5, 6, 7, 50, 54, 58]);
  t.deepEqual(e.hours, [0, 6, 12, 18]);
  t.deepEqual(sorted(e.daysOfMonth), [1, 4, 7, 10]);
  t.deepEqual(sorted(e.months), [1, 3, 4, 5]);
  t.deepEqual(sorted(e.daysOfWeek), [1, 2, 3, 5]);
});

for (const [text, days] of [
  ['0', [0]],
  ['7', [0]],
  ['SUN', [0]],
  ['5-7', [0, 5, 6]],
  ['FRI-SUN', [0, 5, 6]],
  ['SUN-SAT', [0, 1, 2, 3, 4, 5, 6]],
  ['*/2', [0, 2, 4, 6]],
  ['*', [0, 1, 2, 3, 4, 5, 6]],
] as const) {
  test(`the days of week ${text} are ${days.join(', ')}`, (t) => {
    t.deepEqual(sorted(parseExpression(`0 0 * * ${text}`).daysOfWeek), [...days]);
  });
}

for (const [nickname, same] of [
  ['@yearly', '0 0 1 1 *'],
  ['@annually', '0 0 1 1 *'],
  ['@monthly', '0 0 1 * *'],
  ['@weekly', '0 0 * * 0'],
  ['@daily', '0 0 * * *'],
  ['@midnight', '0 0 * * *'],
  ['@hourly', '0 * * * *'],
  ['@DAILY', '0 0 * * *'],
] as const) {
  test(`${nickname} is ${same}`, (t) => {
    t.deepEqual(parseExpression(nickname), parseExpression(same));
  });
}

for (const [text, message] of [
  ['', 'schedule: needs five fields'],
  ['* * * *', 'schedule: needs five fields'],
  ['* * * * * * *', 'schedule: needs five fields'],
  ['@reboot', 'schedule: "@reboot" is none of @yearly'],
  ['@constructor', 'schedule: "@constructor" is none of'],
  ['60 * * * *', 'schedule: minute: "60" is not a number from 0 to 59'],
  ['* 24 * * *', 'schedule: hour: "24"'],
  ['* * 0 * *', 'schedule: day of month: "0" is not a number from 1 to 31'],
  ['* * 32 * *', 'schedule: day of month: "32"'],
  ['* * * 13 *', 'schedule: month: "13" is not a number from 1 to 12, or one of JAN'],
  ['* * * foo *', 'schedule: month: "foo"'],
  ['* * * * 8', 'schedule: day of week: "8"'],
  ['* * * * monday', 'schedule: day of week: "monday"'],
  ['61 * * * * *', 'schedule: second: "61"'],
  ['-1 * * * *', 'schedule: minute: ""'],
  ['5-1 * * * *', 'schedule: minute: the range "5-1" ends before it begins'],
  ['1-2-3 * * * *', 'schedule: minute: "1-2-3" is not a range'],
  ['*/0 * * * *', 'schedule: minute: "/0" is not a step from 1 to 60'],
  ['*/61 * * * *', 'schedule: minute: "/61"'],
  ['*/x * * * *', 'schedule: minute: "/x"'],
  ['*/2/3 * * * *', 'schedule: minute: "*/2/3" is not a value, a range or a step'],
  ['1, * * * *', 'schedule: minute: "" is not a value'],
  ['1.5 * * * *', 'schedule: minute: "1.5"'],
  ['1e1 * * * *', 'schedule: minute: "1e1"'],
  ['** * * * *', 'schedule: minute: "**"'],
  ['* * L * *', 'schedule: day of month: "L"'],
  ['* * * * 1#2', 'schedule: day of week: "1#2"'],
  ['? * * * *', 'schedule: minute: "?"'],
] as const) {
  test(`"${text}" is refused, naming the field`, (t) => {
    t.true(messageOf(text).startsWith(message), messageOf(text));
  });
}

for (const [text, seconds] of [
  ['* * * * *', 60],
  ['*/5 * * * *', 60],
  ['0 * * * * *', 60],
  ['* * * * * *', 1],
  ['*/10 * * * * *', 10],
  ['*/15 * * * * *', 15],
  // 50 s apart in one minute, 10 s over to the next.
  ['5,55 * * * * *', 10],
  ['5,55 */2 * * * *', 50],
  ['5,55 0,59 5 * * *', 50],
  ['5,55 0,59 5,6 * * *', 10],
  ['5,55 0,59 0,23 * * *', 10],
  ['*/7 0 0 1 1 *', 7],
] as const) {
  test(`the least interval of "${text}" is ${seconds} s`, (t) => {
    t.is(minIntervalSeconds(parseExpression(text)), seconds);
  });
}
