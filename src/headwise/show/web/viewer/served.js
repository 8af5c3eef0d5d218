// The page of a server: asks it for all it shows.

import { servedSource } from "./source_served.js";
import { view } from "./main.js";
import { livePanel } from "./live.js";
import { cutPanel } from "./cut.js";

view(document.getElementById("viewer"), servedSource(), { aside: [livePanel], tabs: [cutPanel] });
