import test from 'ava';
import type { Page } from 'playwright-core';
import { type Ask, fillProject } from '#faults/soak/dashboard-scene.ts';
import { type Held, countStreams, heldBy } from '#faults/soak/held.ts';
import { receiverFor } from '#test/support/receiver.ts';
import { faultTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';
import { inBrowser, useBrowser } from '../ops/browser.ts';
import { signIn } from './browse.ts';
import { useDashboard } from './scene.ts';

/* `npm run soak -- dashboard` has the pages open for ten minutes, and measures the heap, too. */

const { platform } = useDashboard(test);
const open = useBrowser();

/** The content of a page may vary by so much; whatever is left behind at each event adds up to more. */
const allowed = { nodes: 120, listeners: 30 };

/** Waits until a page holds no more than it did; what was read meanwhile may be on its way still. */
const untilNoMore = (before: Held, held: () => Promise<Held>): Promise<unknown> =>
  until(async () => {
    const now = await held();
    const isLess = now.nodes <= before.nodes + allowed.nodes && now.listeners <= before.listeners + allowed.listeners;
    return isLess && now.streams <= before.streams;
  });

const settled = async (page: Page): Promise<void> => {
  await page.locator('main').waitFor();
  await page.locator('.loading, .loading-bar').first().waitFor({ state: 'detached' });
};

/** As many events as that come to the page from the tab that holds the stream, each after what it shows was drawn. */
const happening = (projectId: string, times: number): string => `(async () => {
  const channel = new BroadcastChannel('plinth live ${projectId}');
  for (let nth = 0; nth < ${times}; nth += 1) {
    channel.postMessage({ topics: ['jobs', 'invocations', 'deliveries', 'schema'] });
    await new Promise((resolve) => requestAnimationFrame(resolve));
  }
  channel.close();
})()`;

const setUp = async (receiver: string) => {
  const { client, base } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user, { plan: 'enterprise' });
  const ask: Ask = async (method, path, body) => {
    const answer = await client.call(method, path, { token: user.token, ...(body !== undefined && { body }) });
    if (answer.status >= 300) throw new Error(answer.text);
    return answer.body as Record<string, unknown>;
  };
  const scene = await fillProject(ask, project, receiver);
  for (let nth = 1; nth <= 5; nth += 1) await scene.happen(nth);
  const { page, close } = await open('about:blank');
  await countStreams(page.context());
  await page.goto(`${base}/dashboard/projects/${project.id}`);
  await signIn(page, user);
  await settled(page);
  return { base, project, scene, page, close };
};

inBrowser('no page grows with what is reported to it', async (t) => {
  t.timeout(faultTestMs);
  const { base, project, scene, page, close } = await setUp((await receiverFor(t)).url);
  const held = await heldBy(page);
  const hrefs = `[...document.querySelectorAll('nav.areas a')].map((link) => link.getAttribute('href'))`;
  await page.locator('nav.areas a').nth(20).waitFor();
  const areas = await page.evaluate<string[]>(hrefs);
  t.true(areas.length > 20);
  for (const area of areas) t.true(scene.pages.includes(area.replace('/dashboard', '')), area);
  for (const at of scene.pages.filter((path) => path.startsWith('/projects/'))) {
    await page.goto(`${base}/dashboard${at}`);
    await settled(page);
    await page.evaluate(happening(project.id, 10));
    await settled(page);
    const before = await held();
    await page.evaluate(happening(project.id, 60));
    await settled(page);
    await t.notThrowsAsync(untilNoMore(before, held), at);
  }
  await close();
});

inBrowser('a window that goes from page to page keeps nothing of those that it has left', async (t) => {
  t.timeout(faultTestMs);
  const { page, close } = await setUp((await receiverFor(t)).url);
  const held = await heldBy(page);
  const links = page.locator('nav.areas a');
  const count = await links.count();
  const round = async (): Promise<void> => {
    for (let place = 0; place < count; place += 1) {
      await links.nth(place).click();
      await settled(page);
    }
    for (let place = 0; place < count; place += 1) await page.goBack();
    await links.first().click();
    await settled(page);
  };
  await round();
  const before = await held();
  t.is(before.streams, 1);
  await round();
  await round();
  await t.notThrowsAsync(untilNoMore(before, held));
  t.is((await held()).streams, 1);
  await close();
});
