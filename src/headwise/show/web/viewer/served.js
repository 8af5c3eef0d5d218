// The page of a server: asks it for all it shows.

import { servedSource } from "./source_served.js";
import { view } from "./main.js";

view(document.getElementById("viewer"), servedSource());
