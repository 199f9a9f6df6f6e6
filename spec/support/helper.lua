-- Loaded by busted before the specs.
local sealed = require "spec.support.sealed"

require "spec.support.device"
if sealed.here then sealed.arrange(require "busted") end
