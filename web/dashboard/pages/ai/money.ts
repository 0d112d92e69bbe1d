/** US dollars, with as many digits as a small sum needs. */
export const usdText = (usd: number): string =>
  usd.toLocaleString('en', {
    style: 'currency',
    currency: 'USD',
    maximumFractionDigits: usd !== 0 && Math.abs(usd) < 1 ? 6 : 2,
  });

/** The same of billionths. */
export const nanoUsdText = (nanoUsd: number | null): string => (nanoUsd === null ? '–' : usdText(nanoUsd / 1e9));
