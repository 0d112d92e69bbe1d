import { convert } from 'html-to-text';

/**
 * In characters. Nested tables cost more than their length: 256 KB of them half a second, this at most 50 ms. Gmail cuts
 * bodies of more than 102 KB, too.
 */
const maxHtml = 100_000;

/** For clients that show no HTML: what the body says, with the address behind each link. */
export const textOf = (html: string): string =>
  convert(html.slice(0, maxHtml), {
    wordwrap: 78,
    // Bodies come from strangers.
    limits: { maxDepth: 60, maxChildNodes: 5000, ellipsis: '…' },
    selectors: [
      { selector: 'img', format: 'skip' },
      { selector: 'h1', options: { uppercase: false } },
      { selector: 'a', options: { hideLinkHrefIfSameAsText: true } },
      // Preheaders are for lists of mails.
      { selector: 'div[style*="display:none"]', format: 'skip' },
    ],
  });
