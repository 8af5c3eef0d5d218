// The page of a server: asks it for all it shows.

import { servedSource } from "./live/source_served.js";
import { view } from "./shell/main.js";
import { livePanel } from "./live/live.js";
import { cutPanel } from "./cut/cut.js";

view(document.getElementById("viewer"), servedSource(), { aside: [livePanel], tabs: [cutPanel] });
