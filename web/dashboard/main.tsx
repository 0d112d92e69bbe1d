import { App } from './app.tsx';
import { mount } from './components/mount.tsx';
// oxlint-disable-next-line import/no-unassigned-import -- the bundler takes it from here
import './style.css';

mount(<App />);
