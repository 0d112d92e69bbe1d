import { mount } from '../dashboard/components/mount.tsx';
import { App } from './app.tsx';
// oxlint-disable-next-line import/no-unassigned-import -- the bundler takes it from here
import './style.css';

mount(<App />);
