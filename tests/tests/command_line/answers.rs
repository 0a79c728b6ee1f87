//! Requests to the planner end with the appliance's answer.
