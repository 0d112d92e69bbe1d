/** A page as a browser without scripts has it. */
export interface Page {
  readonly url: string;
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

interface Cookie {
  readonly name: string;
  readonly value: string;
  readonly path: string;
}

const unescaped = (text: string): string =>
  text.replaceAll(/&#(\d+);/g, (_whole, code: string) => String.fromCodePoint(Number(code))).replaceAll('&amp;', '&');

/** The fields and the address of a form on a page. @param end how its address ends */
export const formOf = (page: Page, end = ''): { action: string; fields: Record<string, string> } => {
  const forms = [...page.text.matchAll(/<form[^>]*action="([^"]*)"[^>]*>([^]*?)<\/form>/g)];
  const found = forms.find(([, action = '']) => action.endsWith(end));
  if (found === undefined) throw new Error(`there is no form ${end} on ${page.url}: ${page.status} ${page.text}`);
  const inputs = [...(found[2] ?? '').matchAll(/<input\s([^>]*)>/g)].map(([, text = '']) => text);
  const fields = inputs.flatMap((text) => {
    const name = /name="([^"]*)"/.exec(text)?.[1];
    return name === undefined ? [] : [[name, unescaped(/value="([^"]*)"/.exec(text)?.[1] ?? '')] as const];
  });
  return { action: new URL(unescaped(found[1] ?? ''), page.url).href, fields: Object.fromEntries(fields) };
};

/** A browser's cookies and redirects; stops where the platform's own pages end. */
export class Browser {
  readonly #base: string;
  readonly #headers: Readonly<Record<string, string>>;
  #cookies: Cookie[] = [];

  constructor(base: string, headers: Readonly<Record<string, string>> = {}) {
    this.#base = base;
    this.#headers = headers;
  }

  cookie(name: string): string | undefined {
    return this.#cookies.find((cookie) => cookie.name === name)?.value;
  }

  setCookie(name: string, value: string, path: string): void {
    this.#cookies = [...this.#cookies.filter((one) => one.name !== name || one.path !== path), { name, value, path }];
  }

  #keep(headers: Headers): void {
    for (const line of headers.getSetCookie()) {
      const [pair = ''] = line.split(';');
      const end = pair.indexOf('=');
      const [name, value] = [pair.slice(0, end), pair.slice(end + 1)];
      this.setCookie(name, value, /path=([^;]*)/i.exec(line)?.[1] ?? '/');
    }
  }

  #cookiesFor(url: string): string {
    const { pathname } = new URL(url);
    return this.#cookies
      .filter(
        ({ path, value }) => value !== '' && (pathname === path || pathname.startsWith(path.replace(/\/?$/, '/'))),
      )
      .map(({ name, value }) => `${name}=${value}`)
      .join('; ');
  }

  /** One request, redirects not followed. */
  async request(url: string, fields?: Readonly<Record<string, string>>, headers: object = {}): Promise<Page> {
    const cookie = this.#cookiesFor(url);
    const response = await fetch(url, {
      redirect: 'manual',
      headers: { ...this.#headers, ...(cookie !== '' && { cookie }), accept: 'text/html', ...headers },
      ...(fields && { method: 'POST', body: new URLSearchParams(fields) }),
    });
    this.#keep(response.headers);
    return { url, status: response.status, headers: response.headers, text: await response.text() };
  }

  /** Follows redirects as long as they stay at the platform. */
  async open(url: string, fields?: Readonly<Record<string, string>>): Promise<Page> {
    let page = await this.request(url, fields);
    for (let hops = 0; hops < 10; hops += 1) {
      const target = page.headers.get('location');
      if (target === null) return page;
      const next = new URL(target, page.url).href;
      if (!next.startsWith(this.#base)) return { ...page, url: next };
      page = await this.request(next);
    }
    throw new Error(`too many redirects: ${page.url}`);
  }

  submit(page: Page, end: string, fields: Readonly<Record<string, string>> = {}): Promise<Page> {
    const { action, fields: hidden } = formOf(page, end);
    return this.open(action, { ...hidden, ...fields });
  }
}
