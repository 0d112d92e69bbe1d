/**
 * Lines with fields. `GET /projects/{id}/logs?q="sku":"a-1"` finds those of all functions, `?level=warn` what is wrong.
 * The values of fields like `token` are not kept.
 *
 * @env WAREHOUSE=north
 * @payload {"sku":"a-1","left":2}
 * @answer {"reorder":true}
 */
import type { Handler } from 'plinth/functions';

interface Stock {
  sku: string;
  left: number;
}

export const handler: Handler<Stock> = ({ sku, left }, { log, env }) => {
  const reorder = left < 5;
  log(reorder ? 'warn' : 'info', 'stock was counted', { sku, left, warehouse: env['WAREHOUSE'], token: 'left out' });
  return { reorder };
};
