import { domainToASCII } from 'node:url';

const maxAddressLength = 320;
const maxLocalPartLength = 64;
const maxDomainLength = 253;

/**
 * Characters that would end a header or hide the text after them: control characters, Unicode's own line ends, halves
 * of characters.
 */
const unsafe = /[\p{Cc}\p{Cs}\u2028\u2029]/u;

/** Whether a text can stand in a header as it is. */
export const isOneLine = (text: string): boolean => !unsafe.test(text);

// Letters of any script (RFC 6531); quoted forms are not accepted: they do not occur, and parsers differ over them.
const localPart = /^[^\s\p{C}"(),:;<>@[\\\].]+(?:\.[^\s\p{C}"(),:;<>@[\\\].]+)*$/u;
const domainLabel = /^(?!-)[a-z0-9-]{1,63}(?<!-)$/;

/** A domain as DNS has it (`müller.example` → `xn--mller-kva.example`); empty when it is none. */
export const asciiDomain = (domain: string): string => {
  // A dot at the end, percent signs and the like would be made good in silence.
  if (/[^\p{L}\p{N}\p{M}.-]/u.test(domain)) return '';
  const ascii = domainToASCII(domain);
  const labels = ascii.split('.');
  const isDomain =
    ascii.length <= maxDomainLength &&
    labels.length > 1 &&
    labels.every((label) => domainLabel.test(label)) &&
    !/^\d+$/.test(labels.at(-1) ?? '');
  return isDomain ? ascii : '';
};

/** The domain of an address, in ASCII. */
export const domainOf = (address: string): string => asciiDomain(address.slice(address.lastIndexOf('@') + 1));

/** Whether a text is one e-mail address, and nothing beside it: no name, no second address, nothing for a header. */
export const isAddress = (text: string): boolean => {
  if (text.length > maxAddressLength || !isOneLine(text)) return false;
  const at = text.lastIndexOf('@');
  const local = text.slice(0, Math.max(0, at));
  return local.length <= maxLocalPartLength && localPart.test(local) && domainOf(text) !== '';
};
