import { inWords } from './api.js';
import { h, setChildren } from './dom.js';

/**
 * Loads again every so often while the page can be seen. A failure is shown above what was there; it does not replace it.
 * @param load gets the data; @param use shows it
 */
export const refreshing = (everyMs, load, use) => {
  const fault = h('div', { role: 'alert' });
  let timer = 0;
  let closed = false;
  // The answer to an earlier request is not shown: a later one has replaced it.
  let latest = 0;

  const run = async () => {
    clearTimeout(timer);
    const mine = (latest += 1);
    try {
      const data = document.hidden ? undefined : await load();
      if (closed || mine !== latest) return;
      if (data !== undefined) use(data);
      setChildren(fault);
    } catch (error) {
      if (closed || mine !== latest) return;
      setChildren(fault, h('p', { class: 'notice bad' }, inWords(error)));
    }
    if (everyMs > 0) timer = setTimeout(run, everyMs);
  };

  return {
    fault,
    now: run,
    close: () => {
      closed = true;
      clearTimeout(timer);
    },
  };
};
