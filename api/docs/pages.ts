import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import type { Context, Middleware } from 'koa';
import { ServiceError } from '#lib/errors.ts';
import { endpoints } from '#api/endpoints.ts';
import { openapiOf } from './openapi.ts';

// The viewer's files come from its package: nothing is fetched from outside.
const viewer = path.dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'));
/** The type declarations for authors of functions. */
const authorTypes = path.join(import.meta.dirname, '../../docs/functions/plinth.d.ts');

const pageHtml = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light">
<title>plinth API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/docs/swagger-ui.css">
<link rel="stylesheet" href="/docs/page.css">
</head>
<body>
<header>
<h1>plinth API</h1>
<p>Every endpoint of this installation, to read and to try out. To begin, run <code>POST /auth/signup</code> and enter
its <code>access_token</code> under Authorize. For programs there is the OpenAPI document:
<a href="/openapi.json">/openapi.json</a>; for authors of functions, types:
<a href="/docs/plinth.d.ts">/docs/plinth.d.ts</a></p>
</header>
<main id="api"></main>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/page.js"></script>
</body>
</html>
`;

const pageStyle = `body { margin: 0; font-family: system-ui, sans-serif; color: #1f2933; }
header { max-width: 1460px; margin: 0 auto; padding: 24px 20px 0; box-sizing: border-box; }
header h1 { margin: 0; font-size: 1.6rem; }
header p { max-width: 46rem; margin: 6px 0 0; line-height: 1.45; color: #52606d; }
header a { color: #1d4ed8; }
.swagger-ui .info, .swagger-ui .servers-title, .swagger-ui .servers { display: none; }
.swagger-ui .response-col_links { display: none; }
.swagger-ui .scheme-container { box-shadow: none; margin: 0; padding: 16px 0 0; }
.swagger-ui .opblock-tag { font-size: 1.2rem; }
.swagger-ui .opblock .opblock-summary-path { max-width: none; }
.swagger-ui input, .swagger-ui select, .swagger-ui textarea { box-sizing: border-box; max-width: 100%; }
.swagger-ui .opblock-body pre, .swagger-ui .opblock-description-wrapper, .swagger-ui .parameter__name { overflow-wrap: anywhere; }
.swagger-ui .model-box, .swagger-ui .json-schema-2020-12 { max-width: 100%; overflow-x: auto; box-sizing: border-box; }
@media (max-width: 640px) {
  header { padding: 16px 12px 0; }
  .swagger-ui .wrapper { padding: 0 12px; }
  .swagger-ui table, .swagger-ui tbody, .swagger-ui tr, .swagger-ui td { display: block; width: auto; max-width: 100%; min-width: 0; box-sizing: border-box; }
  .swagger-ui thead { display: none; }
  .swagger-ui table tbody tr td { padding: 4px 0; }
  .swagger-ui table.parameters input[type=text], .swagger-ui .parameters-col_description input { width: 100%; min-width: 0; }
  .swagger-ui .opblock-section-header, .swagger-ui .responses-inner, .swagger-ui .table-container { padding: 8px 12px; }
  .swagger-ui .opblock .opblock-section-header { flex-wrap: wrap; gap: 6px; }
  .swagger-ui .auth-wrapper { justify-content: flex-start; }
  .swagger-ui .dialog-ux .modal-ux { min-width: 0; width: calc(100vw - 24px); }
}
`;

const pageScript = `SwaggerUIBundle({
  url: '/openapi.json', dom_id: '#api', deepLinking: true, docExpansion: 'none', persistAuthorization: false,
  defaultModelsExpandDepth: -1, validatorUrl: null,
});
`;

const contentSecurity =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'";

const send = (ctx: Context, type: string, body: string | Buffer, maxAgeSeconds: number): void => {
  ctx.type = type;
  ctx.set('Content-Security-Policy', contentSecurity);
  ctx.set('Cache-Control', `public, max-age=${maxAgeSeconds}`);
  ctx.body = body;
};

type Page = (ctx: Context) => void | Promise<void>;

const page =
  (type: string, body: string): Page =>
  (ctx) =>
    send(ctx, type, body, 0);

const file =
  (name: string, type: string, maxAgeSeconds = 3600): Page =>
  async (ctx) =>
    send(ctx, type, await readFile(name), maxAgeSeconds);

const refuseMethod = (ctx: Context): void => {
  const headers = { Allow: 'HEAD, GET, OPTIONS' };
  if (ctx.method !== 'OPTIONS')
    throw new ServiceError('method_not_allowed', `${ctx.method} is not possible here.`, { headers });
  ctx.set(headers);
  ctx.status = 204;
};

let openapiJson: string | undefined;
/** Writing the document takes some 150 ms; a process that starts several APIs, as the tests do, does it once. */
const openapiText = (): string => (openapiJson ??= JSON.stringify(openapiOf(endpoints)));

/** `/openapi.json` and, readable in a browser, `/docs`. */
export const docsPages = (): Middleware => {
  const html = page('text/html; charset=utf-8', pageHtml);
  const pages = new Map<string, Page>([
    ['/openapi.json', page('application/json; charset=utf-8', openapiText())],
    ['/docs', html],
    ['/docs/', html],
    ['/docs/plinth.d.ts', file(authorTypes, 'text/plain; charset=utf-8', 0)],
    ['/docs/page.css', page('text/css; charset=utf-8', pageStyle)],
    ['/docs/page.js', page('text/javascript; charset=utf-8', pageScript)],
    ['/docs/swagger-ui.css', file(path.join(viewer, 'swagger-ui.css'), 'text/css; charset=utf-8')],
    ['/docs/swagger-ui-bundle.js', file(path.join(viewer, 'swagger-ui-bundle.js'), 'text/javascript; charset=utf-8')],
  ]);
  return (ctx, next) => {
    const found = pages.get(ctx.path);
    if (found === undefined) return next();
    if (ctx.method === 'GET' || ctx.method === 'HEAD') return found(ctx);
    return refuseMethod(ctx);
  };
};
