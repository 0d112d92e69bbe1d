import type { BrowserContext, Page } from 'playwright-core';

/** The memory, elements and connections of a page after its garbage was collected. */
export interface Held {
  readonly heapMb: number;
  /** Nodes of the document, and those that scripts keep although they have left it. */
  readonly nodes: number;
  readonly listeners: number;
  /** Open event streams. */
  readonly streams: number;
}

/** Counts the event streams of pages that are opened from now on. */
export const countStreams = (context: BrowserContext): Promise<unknown> =>
  context.addInitScript(`{
    const opened = new Set();
    globalThis.EventSource = class extends EventSource {
      constructor(...args) {
        super(...args);
        opened.add(this);
      }
      close() {
        super.close();
        opened.delete(this);
      }
    };
    globalThis.openStreams = () => opened.size;
  }`);

/** Measures a page as often as it is called. */
export const heldBy = async (page: Page): Promise<() => Promise<Held>> => {
  const session = await page.context().newCDPSession(page);
  return async () => {
    // Finalizers of the first collection free what the second one finds.
    await session.send('HeapProfiler.collectGarbage');
    await session.send('HeapProfiler.collectGarbage');
    const { usedSize } = await session.send('Runtime.getHeapUsage');
    const { nodes, jsEventListeners } = await session.send('Memory.getDOMCounters');
    const streams = await page.evaluate<number>('openStreams()');
    return { heapMb: usedSize / 1024 / 1024, nodes, listeners: jsEventListeners, streams };
  };
};
