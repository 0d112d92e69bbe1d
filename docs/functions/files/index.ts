/**
 * Several files: code, data and text.
 * @payload {"name": "Ada", "land": "no", "net": 100}
 * @answer "Dear Ada, it is 125."
 */
import type { Handler } from 'plinth/functions';
import letter from './letter.txt';
import { gross } from './price';

export const handler: Handler<{ name: string; land: string; net: number }> = ({ name, land, net }) =>
  letter
    .trim()
    .replace('{name}', name)
    .replace('{price}', String(gross(net, land)));
