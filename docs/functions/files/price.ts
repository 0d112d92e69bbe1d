import rates from './rates.json';

export const gross = (net: number, land: string): number => net * (1 + ((rates as Record<string, number>)[land] ?? 0));
