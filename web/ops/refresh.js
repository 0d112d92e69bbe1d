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
  // What was asked before the last change of mind is not shown any more.
  let asked = 0;

  const run = async () => {
    clearTimeout(timer);
    const mine = (asked += 1);
    try {
      const data = document.hidden ? undefined : await load();
      if (closed || mine !== asked) return;
      if (data !== undefined) use(data);
      setChildren(fault);
    } catch (error) {
      if (closed || mine !== asked) return;
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
