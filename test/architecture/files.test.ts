import test from 'ava';
import { filesOf, productFolders } from './source.ts';

test('files are kebab-case', (t) => {
  for (const { name } of filesOf([...productFolders, 'test'])) {
    t.regex(name, /^[a-z\d-]+(\/[a-z\d-]+)*(\/\d{4}_[a-z_]+|\/[a-z\d-]+)(\.test)?\.\w+$/);
  }
});

test('no module keeps a connection, timer or process at import', (t) => {
  for (const { name, text } of filesOf(['api', 'domain', 'lib', 'queues', 'workers'])) {
    if (name.endsWith('/server.ts') || name.includes('/guest/')) continue;
    t.notRegex(text, /^(const|let) \w+ = (new (Pool|Redis|Client|Worker|Queue)\(|setInterval\(|spawn\()/m, name);
  }
});
