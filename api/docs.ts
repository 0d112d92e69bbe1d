import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import type { Context, Middleware } from 'koa';
import { endpoints } from './endpoints.ts';
import { openapiOf } from './openapi.ts';

// The viewer's files come from its package: nothing is fetched from outside.
const viewer = path.dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'));
const viewerFiles: Readonly<Record<string, string>> = {
  'swagger-ui.css': 'text/css; charset=utf-8',
  'swagger-ui-bundle.js': 'text/javascript; charset=utf-8',
};

const page = `<!doctype html>
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
<header><h1>plinth API</h1><p>Every endpoint of this installation. The document itself: <a href="/openapi.json">/openapi.json</a></p></header>
<main id="api"></main>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/page.js"></script>
</body>
</html>
`;

const pageStyle = `body { margin: 0; font-family: system-ui, sans-serif; color: #1f2933; }
header { max-width: 1460px; margin: 0 auto; padding: 24px 20px 0; box-sizing: border-box; }
header h1 { margin: 0; font-size: 1.6rem; }
header p { margin: 4px 0 0; color: #52606d; }
.swagger-ui .info { display: none; }
.swagger-ui .scheme-container { box-shadow: none; padding: 12px 0; }
`;

const pageScript = `SwaggerUIBundle({
  url: '/openapi.json', dom_id: '#api', deepLinking: true, docExpansion: 'list', persistAuthorization: false,
  defaultModelsExpandDepth: -1, validatorUrl: null,
});
`;

const contentSecurity =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'";

const send = (ctx: Context, type: string, body: string | Buffer, maxAgeSeconds: number): void => {
  ctx.type = type;
  ctx.set('Content-Security-Policy', contentSecurity);
  ctx.set('X-Content-Type-Options', 'nosniff');
  ctx.set('Cache-Control', `public, max-age=${maxAgeSeconds}`);
  ctx.body = body;
};

const sendViewerFile = async (ctx: Context, name: string): Promise<boolean> => {
  const type = viewerFiles[name];
  if (type === undefined) return false;
  send(ctx, type, await readFile(path.join(viewer, name)), 3600);
  return true;
};

/** `/openapi.json` and, readable in a browser, `/docs`. */
export const docsPages = (): Middleware => {
  const document = JSON.stringify(openapiOf(endpoints));
  const small: Readonly<Record<string, readonly [type: string, body: string]>> = {
    '/openapi.json': ['application/json; charset=utf-8', document],
    '/docs': ['text/html; charset=utf-8', page],
    '/docs/page.css': ['text/css; charset=utf-8', pageStyle],
    '/docs/page.js': ['text/javascript; charset=utf-8', pageScript],
  };
  return async (ctx, next) => {
    if (ctx.method !== 'GET' && ctx.method !== 'HEAD') return await next();
    const found = small[ctx.path];
    if (found) send(ctx, ...found, 0);
    else if (!ctx.path.startsWith('/docs/') || !(await sendViewerFile(ctx, ctx.path.slice('/docs/'.length))))
      await next();
  };
};
