"""A real browser for tests of pages."""

import shutil

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from processes import PATIENCE_S


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    programs = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    assert all(programs.values()), f"missing: {programs}; launch/packages.txt names the packages"
    options = webdriver.ChromeOptions()
    options.binary_location = programs["chromium"]
    profile = tmp_path_factory.mktemp("profile")
    # Containers have no room for Chromium's sandbox, nor in /dev/shm.
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={profile}",
                 "--window-size=1280,960", "--no-first-run", "--disable-background-networking"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(programs["chromedriver"]))
    driver.set_page_load_timeout(PATIENCE_S)
    yield driver
    driver.quit()


def open_page(browser, page, scheme="light", place=""):
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
    browser.get("about:blank")
    browser.get(f"file://{page}{place}")
    assert browser.get_log("browser") == []
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0, "it fetches nothing"
